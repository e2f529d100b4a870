"""Limits the number of SQL statements per request path. Raise a number only deliberately."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import FactorChallenge
from accounts.users.search import queries as search_queries
from authsvc.db.sql import namespaced
from tests import factories
from tests.accounts.administration import admin_requests
from tests.accounts.mfa import factor_requests
from tests.conftest import Api, ApiResponse, ChangeConfig
from tests.factories import CHALLENGE, PASSWORD, VERIFIER
from tests.fakes.http_peer import HttpPeer
from tests.oauthproviders.browser import Browser, GitHub, address, provider_settings, start_link_flow
from tests.oauthserver import client_application, client_keys
from tests.observations import replace_table
from tokens.jwt import signing_keys
from tokens.models import TokenType

pytestmark = pytest.mark.django_db(transaction=True)

Call = Callable[[Api], ApiResponse]

PKCE = {"code_challenge": CHALLENGE, "code_challenge_method": "s256"}

_TRANSACTION_CONTROL = re.compile(r"(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE)\b")


@dataclass(frozen=True)
class Path:
    """`prepare` creates the required rows and returns the request."""

    name: str
    budget: int
    status: int
    prepare: Callable[[], Call]


def signed_in_user() -> Call:
    token = factories.make_session().access_token
    return lambda api: api.get("/user", bearer=token)


def enroll_factor() -> Call:
    token = factories.make_session().access_token
    return lambda api: factor_requests.enroll(api, token)


def challenge_factor() -> Call:
    owner = factor_requests.make_owner()
    return lambda api: factor_requests.challenge(api, owner.token, owner.factor.id)


def verify_factor(status: str) -> Callable[[], Call]:
    def prepare() -> Call:
        owner = factor_requests.make_owner(status=status)
        challenge = FactorChallenge.objects.create(
            factor=owner.factor, created_at=timezone.now(), ip_address="127.0.0.1"
        )
        return lambda api: factor_requests.verify(
            api, owner.token, owner.factor.id, challenge.id, factor_requests.code()
        )

    return prepare


def unenroll_factor() -> Call:
    owner = factor_requests.make_owner()
    type(owner.session).objects.filter(id=owner.session.id).update(aal="aal2", factor_id=owner.factor.id)
    return lambda api: factor_requests.unenroll(api, owner.token, owner.factor.id)


def user_with_factors() -> Call:
    owner = factor_requests.make_owner()
    factories.make_factor(owner.user, friendly_name="other")
    return lambda api: api.get("/user", bearer=owner.token)


PHONE = "15551234567"
CHOSEN_ID = "fc56ab41-2010-4870-a9b9-767c1dc573fb"
FIXED_CODE = "123456"
PEER = HttpPeer()
GITHUB = GitHub(PEER)


def change(**changes: Any) -> Callable[[], Call]:
    """PUT /user by a user with an email address and a password."""

    def prepare() -> Call:
        token = factories.make_session().access_token
        return lambda api: api.put("/user", changes, bearer=token)

    return prepare


def convert(**changes: Any) -> Callable[[], Call]:
    """PUT /user by an anonymous user."""

    def prepare() -> Call:
        user = factories.make_user(email="", password="", is_anonymous=True)
        user.identities.all().delete()
        token = factories.make_session(user).access_token
        return lambda api: api.put("/user", changes, bearer=token)

    return prepare


def reauthenticate() -> Call:
    token = factories.make_session().access_token
    return lambda api: api.get("/reauthenticate", bearer=token)


def confirm_email_change(token_type: TokenType, *, confirmed: int = 0) -> Callable[[], Call]:
    """Redeem one of the two emails of an email change; `confirmed` = 1 if the other has been redeemed."""

    def prepare() -> Call:
        user = factories.make_user(email_change="new@example.com", email_change_confirm_status=confirmed)
        recipient = user.email if token_type == TokenType.EMAIL_CHANGE_CURRENT else user.email_change
        secret = factories.make_one_time_token(user, token_type, identifier=recipient)
        return lambda api: api.post("/verify", {"type": "email_change", "token_hash": secret.link_token})

    return prepare


def confirm_phone(type: str) -> Callable[[], Call]:
    def prepare() -> Call:
        columns: dict[str, Any] = {"phone" if type == "sms" else "phone_change": PHONE}
        if type == "sms":
            columns |= {"email": "", "confirmed": False}  # a sign-up by phone has nothing else
        user = factories.make_user(**columns)
        token_type = TokenType.CONFIRMATION if type == "sms" else TokenType.PHONE_CHANGE
        secret = factories.make_one_time_token(user, token_type, identifier=PHONE)
        return lambda api: api.post("/verify", {"type": type, "phone": PHONE, "token": secret.code})

    return prepare


def request_email(path: str, *, exists: bool, confirmed: bool = True, **body: Any) -> Callable[[], Call]:
    """Request an email; without an account it costs as many statements and sends nothing."""

    def prepare() -> Call:
        if exists:
            factories.make_user(email="ann@example.com", confirmed=confirmed)
        return lambda api: api.post(path, {"email": "ann@example.com", **body})

    return prepare


def request_sms_code(exists: bool) -> Callable[[], Call]:
    def prepare() -> Call:
        if exists:
            factories.make_user(email="", phone=PHONE, phone_confirmed_at=timezone.now())
        return lambda api: api.post("/otp", {"phone": PHONE})

    return prepare


def start_sign_in() -> Call:
    return lambda api: Browser().authorize()


def callback(*, exists: str = "", pkce: bool = False, verified: bool = True) -> Callable[[], Call]:
    """The callback for a new user, or for a user `known` by `identity` or by a `confirmed`/`unconfirmed` address."""

    def prepare() -> Call:
        GITHUB.set_user(address("ada@example.com", verified=verified))
        if exists == "identity":
            Browser().sign_in()
        elif exists:
            factories.make_user(email="ada@example.com", confirmed=exists == "confirmed")
        browser = Browser()
        state = browser.start(**(PKCE if pkce else {}))
        return lambda api: browser.callback(state)

    return prepare


def start_linking() -> Call:
    token = factories.make_session().access_token
    return lambda api: api.get("/user/identities/authorize?provider=github", bearer=token)


def link_identity() -> Call:
    GITHUB.set_user("ada@example.com")
    browser, token = Browser(), factories.make_session().access_token
    state = start_link_flow(Api(), token)
    return lambda api: browser.callback(state)


def unlink_identity() -> Call:
    GITHUB.set_user("ada@example.com")
    user = factories.make_user(email="ada@example.com")
    Browser().sign_in()
    token = factories.make_session(user).access_token
    identity = user.identities.get(provider="email")
    return lambda api: api.delete(f"/user/identities/{identity.id}", bearer=token)


def logout(scope: str) -> Callable[[], Call]:
    def prepare() -> Call:
        user = factories.make_user()
        factories.make_session(user)
        token = factories.make_session(user).access_token
        return lambda api: api.post(f"/logout?scope={scope}", bearer=token)

    return prepare


def refresh(behind: int) -> Callable[[], Call]:
    def prepare() -> Call:
        session = factories.make_session(refresh_token_counter=5).session
        token = factories.refresh_token(session, 5 - behind)
        return lambda api: api.post("/token?grant_type=refresh_token", {"refresh_token": token})

    return prepare


def password_grant(*, stored: str | None = None, password: str = PASSWORD) -> Callable[[], Call]:
    def prepare() -> Call:
        user = factories.make_user(password_hash=stored)
        body = {"email": user.email, "password": password}
        return lambda api: api.post("/token?grant_type=password", body)

    return prepare


def pkce_grant() -> Call:
    flow = factories.make_flow(factories.make_user())
    body = {"auth_code": flow.auth_code, "code_verifier": VERIFIER}
    return lambda api: api.post("/token?grant_type=pkce", body)


def sign_up(*, pkce: bool = False, taken: bool = False) -> Callable[[], Call]:
    def prepare() -> Call:
        if taken:
            factories.make_user(email="ann@example.com")
        body = {"email": "ann@example.com", "password": PASSWORD}
        challenge = {"code_challenge": CHALLENGE, "code_challenge_method": "s256"} if pkce else {}
        return lambda api: api.post("/signup", body | challenge)

    return prepare


def verify(token_type: TokenType, *, code: bool = False) -> Callable[[], Call]:
    type = "signup" if token_type == TokenType.CONFIRMATION else "recovery"

    def prepare() -> Call:
        user = factories.make_user(confirmed=token_type != TokenType.CONFIRMATION)
        secret = factories.make_one_time_token(user, token_type)
        proof = {"email": user.email, "token": secret.code} if code else {"token_hash": secret.link_token}
        return lambda api: api.post("/verify", {"type": type, **proof})

    return prepare


def administer(method: str, path: str, body: Any = None) -> Callable[[], Call]:
    """An administration request; `{user}` and `{factor}` in the path belong to the only user."""

    def prepare() -> Call:
        user = factories.make_user(email="ann@example.com")
        factor = factories.make_factor(user, friendly_name="lost")
        token = admin_requests.token()
        target = path.format(user=user.id, factor=factor.id)
        return lambda api: api.request(method, target, body, bearer=token)

    return prepare


def administer_as_operator() -> Call:
    token = factories.make_session(factories.make_user(role="svc_admin")).access_token
    return lambda api: api.get("/admin/users", bearer=token)


def list_users(number: int, query: str = "", *, again: bool = False) -> Callable[[], Call]:
    def prepare() -> Call:
        search_queries.estimate_audience.cache_clear()
        replace_table(namespaced("users"))
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {namespaced('users')} (id, aud, email, created_at, updated_at)"
                " SELECT gen_random_uuid(), 'authenticated', n || '@example.com', now(), now()"
                " FROM generate_series(1, %s) n",
                [number],
            )
            cursor.execute(f"ANALYZE {namespaced('users')}")
        token = admin_requests.token()
        if again:
            Api().get(f"/admin/users{query}", bearer=token)
        return lambda api: api.get(f"/admin/users{query}", bearer=token)

    return prepare


def start_authorization() -> Call:
    application = client_application.register(Api())
    return lambda api: client_application.authorize(api, application, scope="email")


def show_authorization() -> Call:
    session = factories.make_session()
    authorization_id = client_application.start(Api(), client_application.register(Api()), scope="email")
    return lambda api: client_application.show(api, authorization_id, session)


def give_consent() -> Call:
    session = factories.make_session()
    authorization_id = client_application.start(Api(), client_application.register(Api()), scope="email")
    client_application.show(Api(), authorization_id, session)
    return lambda api: client_application.decide(api, authorization_id, session)


def exchange_authorization_code() -> Call:
    application = client_application.register(Api(), token_endpoint_auth_method="client_secret_basic")
    code = client_application.approve(Api(), application, factories.make_session(), scope="email")
    return lambda api: client_application.exchange(application, code)


def refresh_as_client() -> Call:
    application = client_application.register(Api(), token_endpoint_auth_method="client_secret_basic")
    token = client_application.sign_in(Api(), application, scope="email")["refresh_token"]
    return lambda api: client_application.refresh(application, token)


def introspect(kind: str) -> Callable[[], Call]:
    def prepare() -> Call:
        application = client_application.register(Api(), token_endpoint_auth_method="client_secret_basic")
        token = client_application.sign_in(Api(), application, scope="email")[kind]
        return lambda api: client_application.introspect(application, token)

    return prepare


def introspect_with_assertion() -> Call:
    application = client_application.register(
        Api(), token_endpoint_auth_method="private_key_jwt", jwks=client_keys.JWKS
    )
    assertion = client_keys.assertion(application.client_id, aud=signing_keys.issuer())
    return lambda api: client_keys.post(assertion, path="/oauth/introspect", token="x")


def revoke() -> Call:
    application = client_application.register(Api(), token_endpoint_auth_method="client_secret_basic")
    token = client_application.sign_in(Api(), application, scope="email")["refresh_token"]
    return lambda api: client_application.revoke(application, token)


def request_own_token() -> Call:
    application = client_application.register(
        Api(), grant_types=["client_credentials"], token_endpoint_auth_method="client_secret_basic"
    )
    return lambda api: client_application.request_token(application, grant_type="client_credentials")


PUSHED: dict[str, Any] = {"redirect_uri": client_application.CALLBACK, "scope": "email", **PKCE}


def push_authorization() -> Call:
    application = client_application.register(Api())
    return lambda api: client_application.request_token(application, path="/oauth/par", **PUSHED)


def start_pushed_authorization() -> Call:
    application = client_application.register(Api())
    pushed = client_application.request_token(application, path="/oauth/par", **PUSHED).json()["request_uri"]
    return lambda api: api.get(f"/oauth/authorize?client_id={application.client_id}&request_uri={pushed}")


def read_userinfo() -> Call:
    token = client_application.sign_in(Api(), client_application.register(Api()), scope="email")["access_token"]
    return lambda api: api.get("/oauth/userinfo", bearer=token)


def list_grants() -> Call:
    session = factories.make_session()
    client_application.approve(Api(), client_application.register(Api()), session, scope="email")
    return lambda api: api.get("/user/oauth/grants", bearer=session.access_token)


PATHS = [
    Path("GET /health", 0, 200, lambda: lambda api: api.get("/health")),
    Path("GET /settings", 0, 200, lambda: lambda api: api.get("/settings")),
    Path("GET /.well-known/jwks.json", 0, 200, lambda: lambda api: api.get("/.well-known/jwks.json")),
    Path("malformed bearer token", 0, 403, lambda: lambda api: api.get("/user", bearer="a.b.c")),
    Path("GET /user", 1, 200, signed_in_user),
    Path("GET /user, with factors", 1, 200, user_with_factors),
    Path("PUT /user, nothing", 6, 200, change()),
    Path("PUT /user, metadata", 6, 200, change(data={"a": 1, "b": None})),
    Path("PUT /user, password", 11, 200, change(password="another horse battery")),
    Path("PUT /user, password rejected", 1, 422, change(password=PASSWORD)),
    Path("PUT /user, email", 13, 200, change(email="new@example.com")),
    Path("PUT /user, email with PKCE", 14, 200, change(email="new@example.com", **PKCE)),
    Path("PUT /user, phone", 9, 200, change(phone=PHONE)),
    Path(
        "PUT /user, everything",
        21,
        200,
        change(email="new@example.com", phone=PHONE, password="another horse battery", data={"a": 1}),
    ),
    Path("PUT /user, email of an anonymous user", 12, 200, convert(email="new@example.com")),
    Path("GET /reauthenticate", 5, 200, reauthenticate),
    # Without the OAuth server one less: no client's exchange can be in progress.
    *(Path(f"POST /logout, {scope}", 4, 204, logout(scope)) for scope in ("global", "others")),
    Path("POST /logout, local", 3, 204, logout("local")),
    Path("POST /factors", 7, 200, enroll_factor),
    Path("POST /factors/{factor_id}/challenge", 5, 200, challenge_factor),
    Path("POST /factors/{factor_id}/verify", 18, 200, verify_factor("verified")),
    Path("POST /factors/{factor_id}/verify, first", 19, 200, verify_factor("unverified")),
    Path("DELETE /factors/{factor_id}", 11, 200, unenroll_factor),
    Path("refresh", 2, 200, refresh(0)),
    Path("refresh, once more", 3, 200, refresh(1)),
    Path("refresh, used again", 4, 400, refresh(2)),
    Path("GET /oauth/authorize", 2, 302, start_authorization),
    Path("GET /oauth/authorizations/{authorization_id}", 5, 200, show_authorization),
    Path("POST /oauth/authorizations/{authorization_id}/consent", 5, 200, give_consent),
    Path("POST /oauth/token, code", 6, 200, exchange_authorization_code),
    Path("POST /oauth/token, refresh", 3, 200, refresh_as_client),
    Path("POST /oauth/token, client_credentials", 2, 200, request_own_token),
    Path("POST /oauth/par", 2, 201, push_authorization),
    Path("GET /oauth/authorize, pushed request", 1, 302, start_pushed_authorization),
    Path("POST /oauth/introspect, access token", 1, 200, introspect("access_token")),
    Path("POST /oauth/introspect, refresh token", 1, 200, introspect("refresh_token")),
    Path("POST /oauth/introspect, private_key_jwt", 2, 200, introspect_with_assertion),
    Path("POST /oauth/revoke", 5, 200, revoke),
    Path("GET /oauth/userinfo", 1, 200, read_userinfo),
    Path("GET /user/oauth/grants", 2, 200, list_grants),
    Path("password grant", 4, 200, password_grant()),
    Path(
        "password grant, imported hash",
        4,
        200,
        password_grant(stored="$2y$04$mIJxfrCaEI3GukZe11CiXublhEFanu5.ododkll1WphfSp6pn4zIu", password="test"),
    ),
    Path("password grant, wrong password", 3, 400, password_grant(password="wrong")),
    Path("PKCE grant", 6, 200, pkce_grant),
    Path("POST /signup", 4, 200, sign_up()),
    Path("POST /signup with PKCE", 5, 200, sign_up(pkce=True)),
    Path("POST /signup, address taken", 3, 200, sign_up(taken=True)),
    Path("POST /verify, confirmation by link", 8, 200, verify(TokenType.CONFIRMATION)),
    Path("POST /verify, confirmation by code", 8, 200, verify(TokenType.CONFIRMATION, code=True)),
    Path("POST /verify, recovery by link", 7, 200, verify(TokenType.RECOVERY)),
    Path("POST /verify, recovery by code", 7, 200, verify(TokenType.RECOVERY, code=True)),
    Path("POST /verify, first side of a change", 3, 200, confirm_email_change(TokenType.EMAIL_CHANGE_NEW)),
    Path(
        "POST /verify, second side of a change",
        9,
        200,
        confirm_email_change(TokenType.EMAIL_CHANGE_CURRENT, confirmed=1),
    ),
    Path("POST /verify, phone", 7, 200, confirm_phone("sms")),
    Path("POST /verify, phone change", 9, 200, confirm_phone("phone_change")),
    Path("POST /otp", 3, 200, request_email("/otp", exists=True)),
    Path("POST /otp, new address", 5, 200, request_email("/otp", exists=False)),
    Path("POST /recover", 3, 200, request_email("/recover", exists=True)),
    Path("POST /recover, unknown address", 3, 200, request_email("/recover", exists=False)),
    Path("POST /resend", 3, 200, request_email("/resend", exists=True, confirmed=False, type="signup")),
    Path("POST /resend, nothing to confirm", 3, 200, request_email("/resend", exists=True, type="signup")),
    Path("POST /resend, unknown address", 3, 200, request_email("/resend", exists=False, type="signup")),
    Path("POST /otp, phone", 2, 200, request_sms_code(exists=True)),
    Path("POST /otp, new phone", 4, 200, request_sms_code(exists=False)),
    Path("GET /authorize", 1, 302, start_sign_in),
    Path("GET /callback, new user", 8, 302, callback()),
    Path("GET /callback, new user with PKCE", 7, 302, callback(pkce=True)),
    Path("GET /callback, new user with unverified email", 7, 302, callback(verified=False)),
    Path("GET /callback, returning user", 7, 302, callback(exists="identity")),
    Path("GET /callback, identity linked automatically", 11, 302, callback(exists="confirmed")),
    Path("GET /callback, unverified account claimed", 22, 302, callback(exists="unconfirmed")),
    Path("GET /user/identities/authorize", 4, 302, start_linking),
    Path("GET /callback, identity linked by the user", 10, 302, link_identity),
    Path("DELETE /user/identities/{identity_id}", 10, 200, unlink_identity),
    Path("GET /admin/users, all on one page", 1, 200, administer("GET", "/admin/users")),
    Path("GET /admin/users, by an operator", 2, 200, administer_as_operator),
    Path("GET /admin/users, the first of some pages", 1, 200, list_users(200)),
    Path("GET /admin/users, the first of very many pages", 2, 200, list_users(12_000)),
    Path("GET /admin/users, any of very many pages", 1, 200, list_users(12_000, "?page=9", again=True)),
    Path("GET /admin/users, exact count", 2, 200, list_users(200, "?count=exact")),
    Path("GET /admin/users, exact", 1, 200, administer("GET", "/admin/users?email=ann@example.com")),
    Path("GET /admin/users, filter with few matches", 2, 200, administer("GET", "/admin/users?filter=ann")),
    Path("GET /admin/users, filter with many matches", 2, 200, list_users(12_000, "?filter=example")),
    Path("GET /admin/users, filter without an index", 3, 200, list_users(200, "?filter=zz")),
    Path("POST /admin/users", 5, 200, administer("POST", "/admin/users", {"email": "bob@example.com"})),
    Path(
        "POST /admin/users/{user_id}",
        6,
        200,
        administer("POST", f"/admin/users/{CHOSEN_ID}", {"email": "b@example.com"}),
    ),
    Path("GET /admin/users/{user_id}", 1, 200, administer("GET", "/admin/users/{user}")),
    Path("PUT /admin/users/{user_id}, role", 4, 200, administer("PUT", "/admin/users/{user}", {"role": "editor"})),
    Path("PUT /admin/users/{user_id}, ban", 4, 200, administer("PUT", "/admin/users/{user}", {"ban_duration": "1h"})),
    Path(
        "PUT /admin/users/{user_id}, password",
        7,
        200,
        administer("PUT", "/admin/users/{user}", {"password": "newsecret"}),
    ),
    Path(
        "PUT /admin/users/{user_id}, address",
        8,
        200,
        administer("PUT", "/admin/users/{user}", {"email": "b@example.com"}),
    ),
    Path("DELETE /admin/users/{user_id}", 12, 200, administer("DELETE", "/admin/users/{user}")),
    Path(
        "DELETE /admin/users/{user_id}, soft",
        20,
        200,
        administer("DELETE", "/admin/users/{user}", {"should_soft_delete": True}),
    ),
    Path("GET /admin/users/{user_id}/factors", 1, 200, administer("GET", "/admin/users/{user}/factors")),
    Path(
        "PUT /admin/users/{user_id}/factors/{factor_id}",
        5,
        200,
        administer("PUT", "/admin/users/{user}/factors/{factor}", {"friendly_name": "found"}),
    ),
    Path(
        "DELETE /admin/users/{user_id}/factors/{factor_id}",
        7,
        200,
        administer("DELETE", "/admin/users/{user}/factors/{factor}"),
    ),
    Path("GET /admin/audit", 1, 200, administer("GET", "/admin/audit?query=action:login")),
]


def counted_statements(captured: CaptureQueriesContext) -> list[str]:
    """The statements except transaction control and the counters of request and message limits."""
    statements = [" ".join(query["sql"].split()) for query in captured.captured_queries]
    return [sql for sql in statements if not _TRANSACTION_CONTROL.match(sql) and namespaced("rate_limits") not in sql]


@pytest.fixture(autouse=True, scope="module")
def provider() -> Iterator[None]:
    with PEER:
        yield


@pytest.fixture(autouse=True)
def enabled_sign_in_methods(auth_config: ChangeConfig) -> None:
    auth_config(
        signup={"phone_enabled": True, "manual_linking_enabled": True},
        sms={"test_codes": {PHONE: FIXED_CODE}},
        oauth_server={"enabled": True, "authorization_path": "/oauth/consent"},
        providers={"github": provider_settings(url=PEER.url)},
    )


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_path_stays_within_budget(path: Path, api: Api) -> None:
    call = path.prepare()

    with CaptureQueriesContext(connection) as captured:
        response = call(api)

    assert response.status_code == path.status, response.content
    ran = counted_statements(captured)
    listed = "\n".join(f"{number:3}  {sql}" for number, sql in enumerate(ran, start=1))
    assert len(ran) == path.budget, f"{path.name}: {len(ran)} statements instead of {path.budget}\n{listed}"


def test_orm_and_raw_statements_are_counted(api: Api, auth_config: ChangeConfig) -> None:
    # If hand-written statements were missed, the budgets would prove nothing.
    auth_config(audit={"disable_postgres": True})
    call = refresh(0)()

    with CaptureQueriesContext(connection) as captured:
        call(api)

    ran = counted_statements(captured)
    assert [sql.split()[0] for sql in ran] == ["SELECT", "WITH"]
    assert len(captured) > len(ran)
