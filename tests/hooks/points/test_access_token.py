"""The hook for access tokens: its calls, the claims of its answers, and the rollback of everything after a refusal."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
import responses
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import User
from accounts.users.queries import AccountUsers
from authsvc.caller import Caller
from authsvc.conf import Provider
from authsvc.conf.sections.hooks import HookSettings
from hooks.errors import ClaimsMissing, HookFailed, InvalidClaims, InvalidHookResponse
from hooks.invocation.invocation import NO_RESPONSE
from hooks.points.access_token import read_claims
from oauthserver.clients.client_metadata import DEVICE_CODE
from tests import factories
from tests.accounts.mfa import factor_requests
from tests.accounts.passkeys import passkey_requests
from tests.conftest import Api, ApiResponse, ChangeConfig
from tests.factories import PASSWORD, VERIFIER
from tests.fakes.authenticator import Authenticator
from tests.fakes.http_peer import MockedServer, Received, in_json
from tests.fakes.http_peer import Response as PeerResponse
from tests.fakes.issuer import Issuer, SigningKey
from tests.oauthproviders.browser import SITE, Browser, GitHub, provider_settings
from tests.oauthserver import client_application, device_requests
from tests.oauthserver.conftest import SIGNING_KEY
from tests.observations import redirect_fragment, redirect_query, table_contents
from tests.page_browser import PageBrowser
from tests.recorded_metrics import RecordedMetrics
from tests.tokens.token_requests import error_of, refresh
from tests.tokens.token_requests import read_claims as claims_of
from tokens.models import Session, TokenType
from tokens.sessions import impersonation, issuing, lifecycle

HOOK_URL = "https://hooks.example.com"
RSA = SigningKey()
ISSUED: dict[str, Any] = {
    "iss": "https://auth.example.com",
    "sub": "a",
    "aud": "authenticated",
    "exp": 1767229200,
    "iat": 1767225600,
    "email": "user@example.com",
    "phone": "",
    "app_metadata": {"provider": "email"},
    "user_metadata": {},
    "role": "authenticated",
    "aal": "aal1",
    "amr": [{"method": "password", "timestamp": 1767225600}],
    "session_id": "s",
    "is_anonymous": False,
}
_MISMATCH = "output claims do not conform to the expected schema: \n"


class HookServer(MockedServer):
    """The hook. It returns the claims with `added`, or `fixed`."""

    fixed: PeerResponse | None = None
    added: dict[str, Any] = {}

    def next_response(self, received: Received) -> PeerResponse:
        super().next_response(received)
        return self.fixed or in_json({"claims": {**received.json()["claims"], **self.added}})

    def refuse(self, status: int = 403) -> None:
        self.fixed = in_json({"error": {"http_code": status, "message": "not today"}})

    @property
    def payloads(self) -> list[dict[str, Any]]:
        return [received.json() for received in self.received]


def configure(auth_config: ChangeConfig, **changes: Any) -> None:
    """Enable the hook with settings."""
    values = {"enabled": True, "uri": HOOK_URL, "timeout": timedelta(seconds=30), **changes}
    auth_config(hooks={**auth_config().hooks, "custom_access_token": HookSettings(**values)})


@pytest.fixture
def hook(auth_config: ChangeConfig, mocked_requests: responses.RequestsMock) -> HookServer:
    configure(auth_config)
    return HookServer(mocked_requests, url=HOOK_URL)


# The answer


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({"email": None}, ["email: Invalid type. Expected: string, given: null"]),
        ({"aud": 7}, ["aud: Invalid type. Expected: [string,array], given: integer"]),
        ({"exp": 1.5}, ["exp: Invalid type. Expected: integer, given: number"]),
        ({"iat": "x"}, ["iat: Invalid type. Expected: integer, given: string"]),
        ({"nbf": True}, ["nbf: Invalid type. Expected: integer, given: boolean"]),
        ({"app_metadata": []}, ["app_metadata: Invalid type. Expected: object, given: array"]),
        ({"role": {}}, ["role: Invalid type. Expected: string, given: object"]),
        ({"client_id": 1}, ["client_id: Invalid type. Expected: string, given: integer"]),
        ({"amr": "otp"}, ["amr: Invalid type. Expected: array, given: string"]),
        (
            {"amr": ["otp", 7]},
            [
                "amr.1: Must validate at least one schema (anyOf)",
                "amr.1: Invalid type. Expected: string, given: integer",
            ],
        ),
        ({"sub": "b"}, ['sub: sub does not match: "a"']),
        ({"session_id": "t"}, ['session_id: session_id does not match: "s"']),
        ({"iat": 1767225599}, ["iat: iat does not match: 1767225600"]),
        ({"iss": "https://other.example"}, ['iss: iss does not match: "https://auth.example.com"']),
        ({"exp": 1767229201}, ["exp: Must be less than or equal to 1767229200"]),
        ({"sub": "b", "exp": 1e300}, ['sub: sub does not match: "a"', "exp: Must be less than or equal to 1767229200"]),
    ],
)
def test_claims_of_a_wrong_type_or_with_a_fixed_value_are_refused(changes: dict[str, Any], lines: list[str]) -> None:
    with pytest.raises(InvalidClaims) as raised:
        read_claims({"claims": {**ISSUED, **changes}}, issued=ISSUED)
    assert raised.value.message == _MISMATCH + "".join(f"- {line}\n" for line in lines)
    assert (raised.value.status, raised.value.error_code) == (500, "unexpected_failure")


def test_required_claims_are_named_in_the_order_of_the_schema() -> None:
    with pytest.raises(InvalidClaims) as raised:
        read_claims({"claims": {"email": 1}}, issued=ISSUED)
    required = ("aud", "exp", "iat", "sub", "phone", "role", "aal", "session_id", "is_anonymous")
    lines = [
        *(f"(root): {name} is required" for name in required),
        "email: Invalid type. Expected: string, given: integer",
    ]
    assert raised.value.message == _MISMATCH + "".join(f"- {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("response", "error", "text"),
    [
        ({}, ClaimsMissing, "output claims field is missing"),
        (None, ClaimsMissing, "output claims field is missing"),
        ({"claims": None}, InvalidClaims, f"{_MISMATCH}- (root): Invalid type. Expected: object, given: null\n"),
        (NO_RESPONSE, InvalidClaims, f"{_MISMATCH}- (root): Invalid type. Expected: object, given: null\n"),
        ({"claims": []}, InvalidHookResponse, "Error unmarshaling JSON output."),
        ({"claims": 7}, InvalidHookResponse, "Error unmarshaling JSON output."),
    ],
)
def test_responses_without_claims_are_refused(response: Any, error: type[HookFailed], text: str) -> None:
    with pytest.raises(error) as raised:
        read_claims(response, issued=ISSUED)
    assert (raised.value.status, raised.value.error_code, raised.value.message) == (500, "unexpected_failure", text)


@pytest.mark.parametrize(
    "changes",
    [
        {"plan": "pro", "nested": {"a": [1, None]}},
        {"exp": 1767229200.0},
        {"exp": 1767226000, "iat": 1767225600.0},
        {"amr": ["password"]},
        {"amr": [{"method": "password"}, "otp"]},
        {"aud": ["a", "b"]},
        {"role": "editor", "email": "", "aal": "aal2", "is_anonymous": "perhaps", "app_metadata": {}},
        {"nbf": 0, "jti": "x"},
    ],
)
def test_other_claims_may_change(changes: dict[str, Any]) -> None:
    claims = {**ISSUED, **changes}
    assert read_claims({"claims": claims, "more": 1}, issued=ISSUED) == claims


def test_claims_that_are_left_out_are_gone() -> None:
    required = ("aud", "exp", "iat", "sub", "email", "phone", "role", "aal", "session_id", "is_anonymous")
    claims = {name: ISSUED[name] for name in required}
    assert read_claims({"claims": claims}, issued=ISSUED) == claims


def test_a_token_always_shows_the_client_and_the_operator_who_act_with_it() -> None:
    issued = {**ISSUED, "client_id": "c", "scope": "email", "act": {"sub": "o"}}
    assert read_claims({"claims": ISSUED}, issued=issued) == {**ISSUED, "client_id": "c", "act": {"sub": "o"}}
    assert read_claims({"claims": {**issued, "scope": "email orders"}}, issued=issued)["scope"] == "email orders"
    with pytest.raises(InvalidClaims) as raised:
        read_claims({"claims": {**issued, "client_id": "d", "act": None}}, issued=issued)
    lines = '- client_id: client_id does not match: "c"\n- act: act does not match: {"sub":"o"}\n'
    assert raised.value.message == _MISMATCH + lines


def test_an_issuer_is_not_added() -> None:
    issued = {name: value for name, value in ISSUED.items() if name != "iss"}
    with pytest.raises(InvalidClaims) as raised:
        read_claims({"claims": ISSUED}, issued=issued)
    assert raised.value.message == f"{_MISMATCH}- (root): Additional property iss is not allowed\n"


# The call


@pytest.mark.django_db
def test_the_hook_is_asked_for_each_token(api: Api, hook: HookServer) -> None:
    user = factories.make_user(email="ada@example.com", data={"name": "Ada"})
    hook.added = {"plan": "pro", "exp": int(timezone.now().timestamp()) + 60}

    signed_in = api.post("/token?grant_type=password", {"email": user.email, "password": PASSWORD}).json()
    refreshed = refresh(api, signed_in["refresh_token"]).json()

    session = Session.objects.get(user=user)
    asked, asked_again = hook.payloads
    metadata, claims = asked.pop("metadata"), asked.pop("claims")
    assert metadata.keys() == {"uuid", "time", "name", "ip_address"}
    assert (metadata["name"], metadata["ip_address"]) == ("customize-access-token", "127.0.0.1")
    assert asked == {"user_id": str(user.id), "authentication_method": "password"}
    assert asked_again["authentication_method"] == "token_refresh"
    issued = claims_of(signed_in["access_token"])
    assert {**claims, **hook.added} == issued
    assert claims["session_id"] == str(session.id)
    assert (claims["aud"], claims["user_metadata"]["name"], claims["app_metadata"]["provider"]) == (
        "authenticated", "Ada", "email",
    )  # fmt: skip
    # The times of the response are those of the server.
    assert signed_in["expires_in"] == 3600
    assert signed_in["expires_at"] == claims["exp"]
    assert claims_of(refreshed["access_token"])["plan"] == "pro"
    assert api.get("/user", bearer=signed_in["access_token"]).status_code == 200


@pytest.mark.django_db
def test_a_call_costs_no_statement(api: Api, hook: HookServer, auth_config: ChangeConfig) -> None:
    user = factories.make_user()
    body = {"email": user.email, "password": PASSWORD}
    with CaptureQueriesContext(connection) as hooked:
        assert api.post("/token?grant_type=password", body).status_code == 200
    configure(auth_config, enabled=False)
    with CaptureQueriesContext(connection) as plain:
        assert api.post("/token?grant_type=password", body).status_code == 200
    assert len(hooked) == len(plain)
    assert len(hook.received) == 1


@pytest.mark.django_db
def test_an_open_hook_leaves_the_claims_unchanged(
    api: Api, hook: HookServer, auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture
) -> None:
    configure(auth_config, on_failure="open")
    body = {"email": factories.make_user().email, "password": PASSWORD}
    for failure in (PeerResponse(status=500), in_json({}), in_json({"claims": {"sub": "other"}})):
        hook.fixed = failure
        response = api.post("/token?grant_type=password", body)
        assert claims_of(response.json()["access_token"]) == hook.payloads[-1]["claims"]
        assert "hook failed open" in caplog.messages
        caplog.clear()
    hook.refuse()
    assert error_of(api.post("/token?grant_type=password", body)) == (403, "unknown", "not today")


@pytest.mark.django_db
@pytest.mark.parametrize(("mode", "outcome"), [("open", "failed_open"), ("closed", "failed")])
def test_refused_claims_are_a_failed_call(
    api: Api,
    hook: HookServer,
    auth_config: ChangeConfig,
    caplog: pytest.LogCaptureFixture,
    recorded: RecordedMetrics,
    mode: str,
    outcome: str,
) -> None:
    caplog.set_level(logging.INFO, logger="hooks")
    configure(auth_config, on_failure=mode)
    hook.fixed = in_json({"claims": {"sub": "other"}})
    response = api.post("/token?grant_type=password", {"email": factories.make_user().email, "password": PASSWORD})
    assert response.status_code == (200 if mode == "open" else 500)
    assert recorded.changes("auth_hook_duration_seconds_count", "outcome") == {(outcome,): 1}
    assert "Hook errored out" in caplog.messages
    assert "Hook ran successfully" not in caplog.messages


@pytest.mark.django_db
def test_a_token_needs_a_reserved_call(hook: HookServer) -> None:
    user = AccountUsers().find_user(factories.make_user().id)
    assert user is not None
    with pytest.raises(RuntimeError, match="token_transaction"):
        lifecycle.start_session(user=user, method="password", caller=Caller(), at=timezone.now())
    assert not hook.received


@pytest.mark.django_db
@pytest.mark.usefixtures("hook")
def test_a_failed_transaction_leaves_no_session_in_the_caller() -> None:
    caller = Caller()

    def fail() -> None:
        with issuing.token_transaction(caller):
            lifecycle.announce_session(caller)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert (caller.audit.session_id, caller.audit.next_session_id) == (None, None)


# Every way to a token

Request = Callable[[Api], ApiResponse]


@dataclass(frozen=True)
class World:
    """Settings and peers of a test."""

    api: Api
    auth_config: ChangeConfig
    mock: responses.RequestsMock


def password(_: World) -> Request:
    body = {"email": factories.make_user().email, "password": PASSWORD}
    return lambda api: api.post("/token?grant_type=password", body)


def refresh_token(_: World) -> Request:
    token = factories.make_session().refresh_token
    return lambda api: refresh(api, token)


def imported_refresh_token(_: World) -> Request:
    token = factories.make_legacy_tokens()[-1].token
    return lambda api: refresh(api, token or "")


def pkce(_: World) -> Request:
    body = {"auth_code": factories.make_flow(factories.make_user()).auth_code, "code_verifier": VERIFIER}
    return lambda api: api.post("/token?grant_type=pkce", body)


def verified_code(_: World) -> Request:
    user = factories.make_user(confirmed=False)
    secret = factories.make_one_time_token(user, TokenType.CONFIRMATION)
    return lambda api: api.post("/verify", {"type": "signup", "email": user.email, "token": secret.code})


def opened_link(_: World) -> Request:
    secret = factories.make_one_time_token(factories.make_user(), TokenType.RECOVERY)
    return lambda api: api.get(f"/verify?type=recovery&token={secret.link_token}")


def email_change(_: World) -> Request:
    user = factories.make_user(email_change="new@example.com", email_change_confirm_status=1)
    secret = factories.make_one_time_token(user, TokenType.EMAIL_CHANGE_NEW, identifier=user.email_change)
    return lambda api: api.post("/verify", {"type": "email_change", "token_hash": secret.link_token})


def sign_up(world: World) -> Request:
    world.auth_config(mailer={"autoconfirm": True})
    return lambda api: api.post("/signup", {"email": "ada@example.com", "password": PASSWORD})


def repeated_sign_up(world: World) -> Request:
    factories.make_user(email="ada@example.com", confirmed=False)
    return sign_up(world)


def anonymous(world: World) -> Request:
    world.auth_config(signup={"anonymous_enabled": True})
    return lambda api: api.post("/signup", {})


def factor(_: World) -> Request:
    owner = factor_requests.make_owner()
    challenge = factor_requests.challenged(Api(), owner.token, owner.factor.id)
    return lambda api: factor_requests.verify(api, owner.token, owner.factor.id, challenge, factor_requests.code())


def passkey(world: World) -> Request:
    world.auth_config(passkeys={"enabled": True}, webauthn=passkey_requests.PARTY)
    device = Authenticator()
    passkey_requests.make_owner(world.api, device=device)
    return lambda api: passkey_requests.sign_in(api, device)


def callback(world: World) -> Request:
    server = MockedServer(world.mock, url="https://provider.example.com")
    world.auth_config(
        site={"url": SITE, "allow_list": (f"{SITE}/**",)}, providers={"github": provider_settings(url=server.url)}
    )
    GitHub(server)
    browser = Browser()
    state = browser.start()
    return lambda _: browser.callback(state)


def id_token(world: World) -> Request:
    issuer = Issuer(MockedServer(world.mock, url="https://issuer.example.com"), path="/realms/main", key=RSA)
    world.auth_config(providers={"keycloak": Provider(enabled=True, client_ids=("cid",), url=issuer.name)})
    token = issuer.token(aud="cid")
    return lambda api: api.post("/token?grant_type=id_token", {"provider": "keycloak", "id_token": token})


def oauth_code(world: World) -> Request:
    session = factories.make_session()
    application = client_application.register(world.api)
    code = client_application.approve(world.api, application, session)
    return lambda _: client_application.exchange(application, code)


def oauth_refresh(world: World) -> Request:
    application = client_application.register(world.api)
    configure(world.auth_config, enabled=False)
    token = client_application.sign_in(world.api, application)["refresh_token"]
    configure(world.auth_config)
    return lambda _: client_application.refresh(application, token)


def oauth_device(world: World) -> Request:
    world.auth_config(pages={"enabled": True})
    application = client_application.register(world.api, grant_types=[DEVICE_CODE, "refresh_token"])
    started = device_requests.start(application)
    device_requests.approve(started, factories.make_session())
    return lambda _: device_requests.poll(application, started)


def impersonated(world: World) -> Request:
    world.auth_config(console={"enabled": True, "impersonation_enabled": True})
    operator = factories.make_session(factories.make_user(role="svc_admin"))
    token = impersonation.create_link(
        factories.make_user().id, operator_session_id=operator.session.id, reason="asked", at=timezone.now()
    )
    return lambda api: api.post("/verify", {"type": "impersonation", "token_hash": token})


WAYS: list[tuple[Callable[[World], Request], str]] = [
    (password, "password"),
    (refresh_token, "token_refresh"),
    (imported_refresh_token, "token_refresh"),
    (pkce, "magiclink"),
    (verified_code, "otp"),
    (opened_link, "otp"),
    (email_change, "email_change"),
    (sign_up, "password"),
    (repeated_sign_up, "password"),
    (anonymous, "anonymous"),
    (factor, "totp"),
    (passkey, "passkey"),
    (callback, "oauth"),
    (id_token, "oauth"),
    (oauth_code, "oauth_provider/authorization_code"),
    (oauth_refresh, "token_refresh"),
    (oauth_device, "oauth_provider/device_code"),
    (impersonated, "impersonation"),
]


@pytest.fixture
def world(api: Api, auth_config: ChangeConfig, mocked_requests: responses.RequestsMock) -> World:
    auth_config(
        oauth_server={"enabled": True, "authorization_path": "/oauth/consent"},
        jwt={"issuer": "https://auth.example.com", "keys": (SIGNING_KEY,), "valid_methods": ("ES256", "HS256")},
        mailer={"notifies_of_impersonation": False},
    )
    return World(api, auth_config, mocked_requests)


def way_id(value: Any) -> str:
    return str(getattr(value, "__name__", value))


@pytest.mark.django_db
@pytest.mark.parametrize(("way", "method"), WAYS, ids=way_id)
def test_a_refusal_rolls_everything_back(way: Callable[[World], Request], method: str, world: World, api: Api) -> None:
    request = way(world)
    hook = HookServer(world.mock, url=HOOK_URL)
    hook.refuse()
    configure(world.auth_config)
    before = table_contents()

    refused = request(api)

    assert [payload["authentication_method"] for payload in hook.payloads] == [method]
    if refused.status_code in (302, 303):
        error = redirect_query(refused) or redirect_fragment(refused)
        assert (error["error"], error["error_code"], error["error_description"]) == (
            "access_denied", "unknown", "not today",
        )  # fmt: skip
    else:
        content = refused.json()
        assert (refused.status_code, content["error_code"], content["msg"]) == (403, "unknown", "not today")
        if way in (oauth_code, oauth_refresh, oauth_device):
            assert (content["error"], content["error_description"]) == ("access_denied", "not today")
    left = table_contents()
    if way is factor:  # attempts count
        del left["mfa_challenges"], before["mfa_challenges"]
    assert left == before

    # The same secret still gives a token.
    hook.fixed, hook.added = None, {"plan": "pro"}
    if way is oauth_device:
        device_requests.rest()
    repeated = request(api)
    content = redirect_fragment(repeated) if repeated.status_code in (302, 303) else repeated.json()
    assert claims_of(content["access_token"])["plan"] == "pro"


@pytest.mark.django_db
def test_a_failure_at_an_anonymous_sign_in_has_its_own_text(
    api: Api, hook: HookServer, auth_config: ChangeConfig
) -> None:
    auth_config(signup={"anonymous_enabled": True})
    hook.fixed = PeerResponse(status=500)
    expected = (500, "unexpected_failure", "Database error creating anonymous user")
    assert error_of(api.post("/signup", {})) == expected
    assert not User.objects.exists()


@pytest.mark.django_db
def test_sessions_of_pages_have_no_token_and_so_no_call(hook: HookServer, auth_config: ChangeConfig) -> None:
    auth_config(pages={"enabled": True}, console={"enabled": True})
    hook.refuse()
    user = factories.make_user(email="ada@example.com", role="svc_admin")
    browser = PageBrowser()
    browser.sign_in("ada@example.com")
    assert browser.is_in
    console = PageBrowser()
    assert console.submit("/operator/login/", name="ada@example.com", password=PASSWORD).status_code == 302
    assert Session.objects.filter(user=user).count() == 2
    assert not hook.received
