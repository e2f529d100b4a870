"""No password, token, code or key appears in logs at any level, or in the repr of a value."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from logging.config import dictConfig
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from accounts.models import User
from accounts.sign_in.password import PasswordInput, PasswordSignIn
from accounts.sign_up import sign_up
from accounts.sign_up.views import SignUpInput
from accounts.users import queries
from accounts.verification import redemption
from accounts.verification.views import VerifyInput
from authsvc import conf
from authsvc.caller import Caller
from authsvc.conf import AuthConfig, Secret
from authsvc.observability import logs
from authsvc.security import crypto
from mailer.delivery import attempt, encryption
from tests.conftest import Api, Mailbox
from tests.factories import CHALLENGE, VERIFIER, backdate, make_flow, make_one_time_token, make_session, make_user
from tests.fakes import smtp as fakes
from tests.fakes.smtp import FakeSmtp
from tests.observations import backdate_rate_limits, redirect_fragment, redirect_query
from tokens.api import grants
from tokens.flows import flow_states, pkce
from tokens.jwt import access_tokens, signing_keys
from tokens.models import OneTimeToken, Session
from tokens.one_time import one_time_tokens
from tokens.sessions import lifecycle, refresh_tokens, users

pytestmark = pytest.mark.django_db

ChangeConfig = Callable[..., AuthConfig]

EMAIL = "user@example.com"
PASSWORD = "open sesame, said the forty"
WRONG = "open barley, said the brother"
JWT_SECRET = "a-secret-known-to-this-service-alone"
SMTP_PASSWORD = "smtp-password-of-this-test"
SHARED_SECRETS = (PASSWORD, WRONG, JWT_SECRET, SMTP_PASSWORD, fakes.PASSWORD, VERIFIER)
# A six-digit code can occur by chance in a timestamp or duration.
LONG_CODES = {"otp_length": 10}
LOGGERS = ("authsvc", "accounts", "tokens", "mailer", "django", "procrastinate", "psycopg")
_PLAIN = frozenset(vars(logging.makeLogRecord({})))


class Plain(logging.Handler):
    """Stores every record as a third-party handler receives it, without the service's formatter."""

    def __init__(self) -> None:
        super().__init__(level=0)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        # Django attaches the request object to its records; the service logs none of its attributes.
        further = {name: value for name, value in vars(record).items() if name not in _PLAIN and name != "request"}
        error = record.exc_info[1] if record.exc_info else None
        stack = "".join(traceback.format_exception(error)) if error else ""
        self.texts.append(f"{record.name} {record.getMessage()} {record.args!r} {further!r} {stack}")


@dataclasses.dataclass
class Log:
    file: Path
    plain: Plain

    def written(self) -> str:
        return self.file.read_text()

    def seen(self) -> str:
        return "\n".join(self.plain.texts)


@pytest.fixture(params=["debug", "trace"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    """The logging configuration of an operator at this level, plus a plain handler on every logger."""
    names = (None, *LOGGERS, "django.server", "django.db.backends", "urllib3", "mail.log")
    touched = [logging.getLogger(name) for name in names]
    before = [(logger, logger.level, logger.propagate, logger.handlers[:]) for logger in touched]
    logging.getLogger("mail.log").propagate = False  # the fake SMTP server logs received emails
    file, plain = tmp_path / "log", Plain()
    dictConfig(logs.build_config(conf.Logging(level=request.param, file=str(file))))
    for logger in [logging.getLogger(), *(logging.getLogger(name) for name in LOGGERS)]:
        logger.addHandler(plain)
    yield Log(file=file, plain=plain)
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logs.LogFile):
            handler.close()
    for logger, level, propagate, handlers in before:
        logger.level, logger.propagate, logger.handlers = level, propagate, handlers
    logging.getLogger().manager._clear_cache()  # type: ignore[attr-defined]  # the levels above bypass setLevel


@dataclasses.dataclass
class Scenario:
    """The requests of one client; `secrets` are the values that must not be logged."""

    api: Api
    mailbox: Mailbox
    secrets: set[str] = dataclasses.field(default_factory=lambda: set(SHARED_SECRETS))

    def post(self, path: str, body: Any = None, **options: Any) -> Any:
        response = self.api.post(path, body, **options)
        if response.status_code == 200:
            self.keep(response.json())
        return response

    def keep(self, session: dict[str, Any]) -> None:
        self.secrets |= {value for name, value in session.items() if name in ("access_token", "refresh_token")}

    def last_email(self) -> dict[str, Any]:
        variables = dict(self.mailbox.emails[-1].variables)
        self.secrets |= {variables["Token"], variables["TokenHash"], variables["TokenHash"].removeprefix("pkce_")}
        backdate_rate_limits(timedelta(hours=1))
        return variables

    def sign_in(self, password: str = PASSWORD) -> Any:
        return self.post("/token?grant_type=password", {"email": EMAIL, "password": password})


def run_requests(api: Api, mailbox: Mailbox, smtp: FakeSmtp, auth_config: ChangeConfig) -> Scenario:
    """Sign-up, emails, links, codes, right and wrong passwords, refresh, reuse, PKCE, logout, bad tokens, failures."""
    scenario = Scenario(api, mailbox)
    # Sign up, fail to send the email, send it again, and open the link twice.
    assert (
        scenario.post("/signup", {"email": EMAIL, "password": PASSWORD, "data": {"full_name": "A. User"}}).status_code
        == 200
    )
    variables = scenario.last_email()
    send(mailbox)  # with a wrong SMTP password
    auth_config(smtp={"password": Secret(fakes.PASSWORD)})
    for response in ({"RCPT": f"550 no such user {EMAIL}"}, {"DATA": f"554 no {variables['Token']}, please"}, {}):
        smtp.replies = response
        send(mailbox)
    assert [received.mechanism for received in smtp.received] != [""]
    opened = api.get(f"/verify?type=signup&token={variables['TokenHash']}")
    scenario.keep(redirect_fragment(opened))
    assert "access_token" in redirect_fragment(opened)
    assert "error" in redirect_fragment(api.get(f"/verify?type=signup&token={variables['TokenHash']}"))
    # Passwords.
    assert scenario.sign_in(WRONG).status_code == 400
    session = scenario.sign_in().json()
    # Refreshing, and an old token used again.
    refreshed = scenario.post("/token?grant_type=refresh_token", {"refresh_token": session["refresh_token"]})
    assert refreshed.status_code == 200
    backdate(*Session.objects.all(), by=timedelta(minutes=1))
    again = scenario.post("/token?grant_type=refresh_token", {"refresh_token": session["refresh_token"]})
    assert again.json()["error_code"] == "refresh_token_already_used"
    # Verify a typed code, first a wrong one.
    assert scenario.post("/recover", {"email": EMAIL}).status_code == 200
    variables = scenario.last_email()
    assert (
        scenario.post("/verify", {"type": "recovery", "email": EMAIL, "token": f"{variables['Token']}0"}).status_code
        == 403
    )
    proof = {"type": "recovery", "email": EMAIL, "token": variables["Token"]}
    session = scenario.post("/verify", proof).json()
    assert scenario.post("/verify", {"type": "recovery", "token_hash": variables["TokenHash"]}).status_code == 403
    # PKCE, with the code and tokens in the Referer header.
    pkce = {"code_challenge": CHALLENGE, "code_challenge_method": "s256"}
    assert scenario.post("/magiclink", {"email": EMAIL, **pkce}).status_code == 200
    code = redirect_query(api.get(f"/verify?type=magiclink&token={scenario.last_email()['TokenHash']}"))["code"]
    scenario.secrets.add(code)
    page = {"Referer": f"http://localhost:3000/cb?code={code}"}
    wrong = {"auth_code": code, "code_verifier": VERIFIER[::-1]}
    assert scenario.post("/token?grant_type=pkce", wrong, headers=page).json()["error_code"] == "bad_code_verifier"
    right = {"auth_code": code, "code_verifier": VERIFIER}
    assert scenario.post("/token?grant_type=pkce", right, headers=page).status_code == 200
    assert scenario.post("/token?grant_type=pkce", right, headers=page).status_code == 404
    page = {"Referer": f"http://localhost:3000/cb#access_token={session['access_token']}"}
    assert api.get("/settings", headers=page).status_code == 200
    # Tokens in wrong places, modified tokens, and a token whose session has ended.
    token = session["access_token"]
    assert api.get(f"/user?access_token={token}").status_code == 401
    assert api.get("/user", headers={"Authorization": f"Basic {token}"}).status_code == 401
    assert api.get("/user", bearer=f"{token[:-4]}AAAA").status_code == 403
    assert api.get(f"/verify?token={variables['TokenHash']}").status_code == 400
    assert api.get(f"/user?x={quote(PASSWORD)}", bearer=token).status_code == 200
    assert api.post("/logout", bearer=token).status_code == 204
    assert api.get("/user", bearer=token).status_code == 403
    # Bodies that cannot be read.
    assert scenario.post("/signup", f'{{"email":"{EMAIL}","password":"{PASSWORD}"').status_code == 400
    assert scenario.post("/signup", {"email": EMAIL, "password": [PASSWORD]}).status_code == 400
    assert (
        scenario.post("/token?grant_type=refresh_token", {"refresh_token": f"{session['refresh_token']}x"}).status_code
        == 400
    )
    # Server errors during sign-in and verification, through constraints, exceptions and the clock.
    user = User.objects.get()
    secret = make_one_time_token(user)
    scenario.secrets |= {secret.code, secret.link_token, user.password or PASSWORD}
    with renamed_table("mfa_amr_claims"):
        assert scenario.sign_in().status_code == 500
        assert "server_error" in api.get(f"/verify?type=recovery&token={secret.link_token}").headers["Location"]
        assert scenario.post("/verify", {"type": "recovery", "email": EMAIL, "token": secret.code}).status_code == 500
    with constraint("users", "email <> 'new@example.com'"), constraint("sessions", "user_agent IS NULL"):
        assert scenario.post("/signup", {"email": "new@example.com", "password": PASSWORD}).status_code == 500
        body = {"email": EMAIL, "password": PASSWORD}
        rejected = scenario.post("/token?grant_type=password", body, headers={"User-Agent": "x"})
        assert rejected.status_code == 500
        assert "Failing row" not in rejected.content.decode()
    jwt = settings.AUTH.jwt
    auth_config(jwt={"keys": ({"kty": "oct", "k": JWT_SECRET, "alg": "HS256"},)})
    assert scenario.sign_in().status_code == 500
    settings.AUTH = dataclasses.replace(settings.AUTH, jwt=jwt)
    auth_config(api={"max_request_duration": timedelta(microseconds=1)})
    assert scenario.sign_in().status_code == 504
    auth_config(api={"max_request_duration": timedelta(seconds=10)})
    # Rate limits.
    auth_config(limits={"token_refresh": 0.001})
    for _ in range(40):
        limited = scenario.sign_in(WRONG)
    assert limited.status_code == 429
    return scenario


def send(mailbox: Mailbox) -> None:
    """Run one attempt of the worker to send the last email."""
    message = mailbox.emails[-1]
    try:
        attempt.deliver(
            message_id=message.id,
            channel="email",
            kind=str(message.type),
            encrypted=encryption.encrypt(message),
            attempt=1,
            retry_delay=timedelta(seconds=30),
            at=timezone.now(),
        )
    except Exception as error:
        logging.getLogger("authsvc.jobs").info("attempt ended", exc_info=error)


@contextlib.contextmanager
def renamed_table(table: str) -> Iterator[None]:
    """Rename a table for the duration of the block."""
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO {table}_away")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {table}_away RENAME TO {table}")


@contextlib.contextmanager
def constraint(table: str, condition: str) -> Iterator[None]:
    """Add a constraint on new rows of a table for the duration of the block."""
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} ADD CONSTRAINT theirs CHECK ({condition}) NOT VALID")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT theirs")


def found_in(text: str, secrets: set[str]) -> list[str]:
    """Each occurrence of a secret with a few surrounding characters."""
    assert all(len(secret) >= 6 for secret in secrets)
    places = [(secret, text.find(secret)) for secret in secrets]
    return [text[max(0, at - 80) : at + 20] for secret, at in places if at >= 0]


@pytest.fixture
def scenario(api: Api, mailbox: Mailbox, auth_config: ChangeConfig, log: Log) -> Scenario:
    with FakeSmtp(mechanisms=["CRAM-MD5"]) as smtp:
        auth_config(
            jwt={"secret": Secret(JWT_SECRET)},
            mailer=LONG_CODES,
            smtp={
                "host": smtp.host, "port": smtp.port, "admin_email": "noreply@example.com", "user": fakes.USER,
                "password": Secret(SMTP_PASSWORD), "logging_enabled": True,
            },
        )  # fmt: skip
        return run_requests(api, mailbox, smtp, auth_config)


def test_no_secret_is_logged(scenario: Scenario, log: Log) -> None:
    written = log.written()
    lines = [json.loads(line) for line in written.splitlines()]
    messages = {line["msg"] for line in lines}
    assert {"request completed", "audit_event", "database error", "request panicked", "mail.send"} <= messages
    assert len(scenario.secrets) > 20
    assert found_in(written, scenario.secrets) == []


def test_no_secret_reaches_plain_handler(scenario: Scenario, log: Log) -> None:
    seen = log.seen()
    assert "request completed" in seen
    assert "audit_event" in seen
    assert found_in(seen, scenario.secrets) == []


def test_secrets_in_paths_are_redacted(api: Api, log: Log) -> None:
    made = make_session()
    link = make_one_time_token(made.user).link_token
    for secret in (made.access_token, made.refresh_token, link, f"pkce_{link}"):
        assert api.get(f"/verify/{secret}").status_code == 404
    assert found_in(log.written(), {made.access_token, made.refresh_token, link}) == []
    assert log.written().count("/verify/***") >= 4


# Values


def values() -> dict[str, tuple[Any, set[str]]]:
    """Name → a value that contains secrets, and those secrets."""
    user = make_user(email=EMAIL, password=PASSWORD)
    made = make_session(user)
    key = made.session.refresh_token_hmac_key or ""
    issued = made.access_token
    at = timezone.now()
    claims = access_tokens.decode(issued, at=at)
    record = queries.get(user.id)
    assert record is not None
    signed_in = users.user_source.find_signed_in_user(user_id=user.id, session_id=made.session.id)
    assert signed_in is not None
    secret = make_one_time_token(user)
    one_time = OneTimeToken.objects.get()
    pair = lifecycle.start_session(user=record, method="password", caller=Caller(), at=at)
    pair_secrets = {pair.access.token, pair.refresh_token}
    flow = make_flow(user, provider_access_token="upstream-access", provider_refresh_token="upstream-refresh")
    sign_up_request = sign_up.SignUpRequest(email=EMAIL, password=PASSWORD, redirect_to="")
    hashes = {one_time.token_hash, one_time.link_hash or ""}
    _, outstanding = _redeemable(secret.link_token)
    config: AuthConfig = settings.AUTH
    verified = redemption.Redemption(user=record, type="signup", tokens=pair, auth_code=flow.auth_code)
    exchanged = flow_states.CodeExchange(
        user=record, tokens=pair, provider_token="upstream-access", provider_refresh_token="upstream-refresh"
    )
    challenge = pkce.Challenge(value=CHALLENGE, method="plain")
    return {
        "AuthConfig": (config, {JWT_SECRET, SMTP_PASSWORD, *_database_password(config)}),
        "Caller": (Caller(address="192.0.2.1", user_agent="x", request_id="y", audience="z"), {PASSWORD}),
        "Secret": (config.jwt.secret, {JWT_SECRET}),
        "OneTimeSecret": (secret, {secret.code, secret.link_token}),
        "Outstanding": (outstanding, hashes),
        "AccessToken": (pair.access, {pair.access.token}),
        "TokenPair": (pair, pair_secrets),
        "Claims": (claims, {issued}),
        "UserRecord": (record, {PASSWORD, record.password_hash}),
        "User": (user, {PASSWORD, record.password_hash, EMAIL}),
        "SignUpRequest": (sign_up_request, {PASSWORD}),
        "SignUpResult": (sign_up.SignUpResult(user=record, tokens=pair), {*pair_secrets, record.password_hash}),
        "PasswordSignIn": (PasswordSignIn(user=record, tokens=pair, weakness=None), pair_secrets),
        "Redemption": (verified, {*pair_secrets, flow.auth_code or "", record.password_hash}),
        "Presented": (refresh_tokens.decode(made.refresh_token), {made.refresh_token, key}),
        "KeySet": (signing_keys.current(), {JWT_SECRET}),
        "Key": (signing_keys.current().signing, {JWT_SECRET}),
        "Session": (made.session, {key}),
        "OneTimeToken": (one_time, hashes),
        "FlowState": (flow, {flow.auth_code or "", "upstream-access", CHALLENGE}),
        "SignedIn": (signed_in, {key, record.password_hash}),
        "CodeExchange": (exchanged, {*pair_secrets, "upstream-access", "upstream-refresh"}),
        "Challenge": (challenge, {CHALLENGE}),
        "SignUpInput": (SignUpInput(email=EMAIL, password=PASSWORD), {PASSWORD}),
        "PasswordInput": (PasswordInput(email=EMAIL, password=PASSWORD), {PASSWORD}),
        "VerifyInput": (
            VerifyInput(token=secret.code, token_hash=secret.link_token, password=PASSWORD),
            {secret.code, secret.link_token, PASSWORD},
        ),
        "RefreshTokenInput": (
            grants.RefreshTokenInput(refresh_token=made.refresh_token), {made.refresh_token},
        ),
        "PkceInput": (
            grants.PkceInput(auth_code=flow.auth_code, code_verifier=VERIFIER), {flow.auth_code or "", VERIFIER},
        ),
    }  # fmt: skip


def _redeemable(link_token: str) -> tuple[Any, Any]:
    """A user with a pending one-time token, as verification reads them."""
    one_time_token = queries.find_by_link(link_hash=crypto.hash_link_token(link_token), token_types=["recovery_token"])
    assert one_time_token is not None
    return one_time_token[0], one_time_tokens.from_row(one_time_token[1])


def _database_password(config: AuthConfig) -> set[str]:
    return {config.database.url.reveal()}


TYPES_WITH_SECRETS = (
    "AuthConfig", "Caller", "Secret", "OneTimeSecret", "Outstanding", "AccessToken", "TokenPair",
    "Claims", "UserRecord", "User", "SignUpRequest", "SignUpResult", "PasswordSignIn", "Redemption", "Presented",
    "KeySet", "Key", "Session", "OneTimeToken", "FlowState", "SignUpInput", "PasswordInput", "VerifyInput", "SignedIn",
    "CodeExchange", "Challenge", "RefreshTokenInput", "PkceInput",
)  # fmt: skip


@pytest.mark.parametrize("name", TYPES_WITH_SECRETS)
def test_repr_hides_secrets(auth_config: ChangeConfig, name: str) -> None:
    auth_config(jwt={"secret": Secret(JWT_SECRET)}, smtp={"password": Secret(SMTP_PASSWORD)}, mailer=LONG_CODES)
    examples = values()
    assert set(examples) == {*TYPES_WITH_SECRETS}
    value, secrets = examples[name]
    for text in (repr(value), str(value), f"{value}", repr([value]), repr({"value": value})):
        assert found_in(text, secrets) == []
