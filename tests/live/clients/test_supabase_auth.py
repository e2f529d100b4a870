"""Runs the published Python client against a real server."""

from __future__ import annotations

import base64
import hmac
import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import requests
from supabase_auth import SyncGoTrueAdminAPI, SyncGoTrueClient
from supabase_auth.errors import AuthApiError, AuthInvalidJwtError, AuthWeakPasswordError
from supabase_auth.types import (
    AuthChangeEvent,
    CreateOAuthClientParams,
    PageParams,
    Session,
    SignOutOptions,
    SignOutScope,
    UpdateOAuthClientParams,
    User,
)

from tests.live.clients.conftest import FIXED_CODE, PHONES, Service

PASSWORD = "correct horse 1"

Open = Callable[..., SyncGoTrueClient]


@pytest.fixture
def calls() -> list[str]:
    """Requests of all clients of the test, such as "GET /user"."""
    return []


@pytest.fixture
def open_client(service: Service, calls: list[str]) -> Iterator[Open]:
    """`open_client()` returns a client with separate storage; `flow_type="pkce"` selects the PKCE flow."""
    with ExitStack() as clients:

        def record(request: httpx.Request) -> None:
            calls.append(f"{request.method} {request.url.path}")

        def start(**options: object) -> SyncGoTrueClient:
            client = SyncGoTrueClient(
                url=service.url,
                auto_refresh_token=False,
                http_client=httpx.Client(event_hooks={"request": [record]}),
                **options,  # type: ignore[arg-type]
            )
            return clients.enter_context(client)

        yield start


@pytest.fixture
def admin(open_client: Open, service: Service) -> SyncGoTrueAdminAPI:
    """The administration API with a service token."""
    admin: SyncGoTrueAdminAPI = open_client(headers={"Authorization": f"Bearer {service.admin_token}"}).admin
    return admin


@pytest.fixture
def email() -> str:
    return f"u-{uuid.uuid4()}@example.com"


@pytest.fixture
def client(open_client: Open, email: str, service: Service) -> SyncGoTrueClient:
    """A client signed in as `email`, which the first email confirmed."""
    client = open_client()
    client.sign_up({"email": email, "password": PASSWORD})
    client.verify_otp({"email": email, "type": "signup", "token": service.mailbox.wait(email).code})
    return client


def follow(link: str) -> str:
    response = requests.get(link, allow_redirects=False, timeout=60)
    assert response.status_code == 303
    return response.headers["Location"]


def query(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


def session_of(client: SyncGoTrueClient) -> Session:
    session = client.get_session()
    assert session is not None
    return session


def user_of(client: SyncGoTrueClient) -> User:
    response = client.get_user()
    assert response is not None
    return response.user


def assert_signed_out(client: SyncGoTrueClient, jwt: str | None = None) -> None:
    with pytest.raises(AuthApiError) as raised:
        client.get_user(jwt)
    assert (raised.value.status, raised.value.code) == (403, "session_not_found")


def test_sign_up_and_confirm_by_link(open_client: Open, email: str, service: Service) -> None:
    client = open_client()
    target = "https://app.example.com/welcome?tab=1"
    made = client.sign_up(
        {"email": email, "password": PASSWORD, "options": {"data": {"name": "Ada"}, "email_redirect_to": target}}
    )
    assert made.session is None
    assert made.user is not None
    assert made.user.user_metadata["name"] == "Ada"

    landed = follow(service.mailbox.wait(email).link)
    assert landed.startswith(f"{target}#")
    client.initialize(url=landed)
    assert session_of(client).expires_in == 3600
    user = user_of(client)
    assert (user.id, user.email) == (made.user.id, email)
    assert user.email_confirmed_at is not None
    assert user.identities is not None
    assert [identity.identity_data["email"] for identity in user.identities] == [email]


def test_sign_up_and_confirm_by_code(open_client: Open, email: str, service: Service) -> None:
    client = open_client()
    events: list[AuthChangeEvent] = []
    client.on_auth_state_change(lambda event, _: events.append(event))
    client.sign_up({"email": email, "password": PASSWORD})

    response = client.verify_otp({"email": email, "type": "email", "token": service.mailbox.wait(email).code})

    assert response.session is not None
    assert events == ["SIGNED_IN"]
    assert user_of(client).email == email


def test_sign_up_with_pkce(open_client: Open, email: str, service: Service) -> None:
    client = open_client(flow_type="pkce")
    target = "https://app.example.com/welcome?tab=1"
    client.sign_up({"email": email, "password": PASSWORD, "options": {"email_redirect_to": target}})
    landed = follow(service.mailbox.wait(email).link)
    assert "#" not in landed
    assert query(landed)["tab"] == "1"
    code = query(landed)["code"]

    with pytest.raises(AuthApiError) as raised:
        open_client().exchange_code_for_session({"auth_code": code, "code_verifier": "w" * 50, "redirect_to": ""})
    assert (raised.value.status, raised.value.code) == (400, "bad_code_verifier")
    response = client.exchange_code_for_session({"auth_code": code, "code_verifier": "", "redirect_to": ""})
    assert response.user is not None
    assert response.user.email == email


def test_sign_in_and_get_user(client: SyncGoTrueClient, open_client: Open, email: str) -> None:
    other = open_client()
    signed = other.sign_in_with_password({"email": email, "password": PASSWORD})
    assert signed.session is not None
    assert signed.session.expires_in == 3600
    user = user_of(other)
    assert user.id == user_of(client).id
    assert user.aud == "authenticated"
    assert user.app_metadata == {"provider": "email", "providers": ["email"]}


def test_refresh_the_session(client: SyncGoTrueClient, open_client: Open) -> None:
    before = session_of(client)
    after = client.refresh_session().session
    assert after is not None
    assert after.refresh_token != before.refresh_token
    assert user_of(client).id == before.user.id
    late = open_client().refresh_session(before.refresh_token).session
    assert late is not None
    assert late.refresh_token == after.refresh_token


def test_get_claims_sends_no_user_request(client: SyncGoTrueClient, calls: list[str], service: Service) -> None:
    session = session_of(client)
    calls.clear()
    claims = client.get_claims()
    assert claims is not None
    assert claims["headers"]["alg"] == "RS256"
    assert claims["claims"]["sub"] == session.user.id
    assert claims["claims"]["iss"] == service.url
    client.get_claims()
    assert calls == ["GET /.well-known/jwks.json"]

    head, _, signature = session.access_token.split(".")
    changed = json.dumps({**claims["claims"], "role": "service_role"}).encode()
    forged = base64.urlsafe_b64encode(changed).decode().rstrip("=")
    with pytest.raises(AuthInvalidJwtError, match="Invalid JWT signature"):
        client.get_claims(f"{head}.{forged}.{signature}")


@pytest.mark.parametrize(
    ("scope", "here", "there"), [("global", False, False), ("local", False, True), ("others", True, False)]
)
def test_sign_out(
    scope: SignOutScope, here: bool, there: bool, client: SyncGoTrueClient, open_client: Open, email: str
) -> None:
    other = open_client()
    other.sign_in_with_password({"email": email, "password": PASSWORD})
    jwt = session_of(client).access_token

    client.sign_out(SignOutOptions(scope=scope))

    for is_in, one, token in ((here, client, jwt), (there, other, None)):
        if is_in:
            assert one.get_user(token) is not None
        else:
            assert_signed_out(one, token)
    assert (client.get_session() is not None) == here


def test_ended_session_cannot_be_refreshed(client: SyncGoTrueClient, open_client: Open) -> None:
    refresh_token = session_of(client).refresh_token
    client.sign_out()
    with pytest.raises(AuthApiError) as raised:
        open_client().refresh_session(refresh_token)
    assert (raised.value.status, raised.value.code) == (400, "refresh_token_not_found")


ERRORS: dict[str, tuple[Callable[[SyncGoTrueClient, str], object], int, str]] = {
    "wrong password": (
        lambda client, email: client.sign_in_with_password({"email": email, "password": "wrong"}),
        400,
        "invalid_credentials",
    ),
    "wrong code": (
        lambda client, email: client.verify_otp({"email": email, "type": "email", "token": "000000"}),
        403,
        "otp_expired",
    ),
    "no address": (
        lambda client, _: client.sign_up({"email": "nonsense", "password": PASSWORD}),
        400,
        "validation_failed",
    ),
    "no token": (lambda client, _: client.get_user("nonsense"), 403, "bad_jwt"),
    "unknown user": (
        lambda client, _: client.sign_in_with_otp(
            {"email": "nobody@example.com", "options": {"should_create_user": False}}
        ),
        422,
        "otp_disabled",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_have_a_code_and_a_status(case: str, client: SyncGoTrueClient, email: str) -> None:
    call, status, code = ERRORS[case]
    with pytest.raises(AuthApiError) as raised:
        call(client, email)
    assert (raised.value.status, raised.value.code) == (status, code)
    assert raised.value.message


def test_sign_in_requires_confirmed_email(open_client: Open, email: str) -> None:
    client = open_client()
    client.sign_up({"email": email, "password": PASSWORD})
    with pytest.raises(AuthApiError) as raised:
        client.sign_in_with_password({"email": email, "password": PASSWORD})
    assert (raised.value.status, raised.value.code) == (400, "email_not_confirmed")


def test_weak_password_is_rejected_with_reasons(open_client: Open, email: str) -> None:
    with pytest.raises(AuthWeakPasswordError) as raised:
        open_client().sign_up({"email": email, "password": "abc"})
    assert raised.value.status == 422
    assert raised.value.reasons == ["length", "characters"]


def test_second_email_is_rate_limited(open_client: Open, email: str) -> None:
    client = open_client()
    client.reset_password_for_email(email)
    with pytest.raises(AuthApiError) as raised:
        client.reset_password_for_email(email)
    assert (raised.value.status, raised.value.code) == (429, "over_email_send_rate_limit")


@pytest.mark.usefixtures("client")
def test_recover_by_link(open_client: Open, email: str, service: Service) -> None:
    other = open_client()
    events: list[AuthChangeEvent] = []
    other.on_auth_state_change(lambda event, _: events.append(event))
    other.reset_password_for_email(email, {"redirect_to": "https://app.example.com/reset"})
    landed = follow(service.mailbox.wait(email, number=2).link)
    assert urlsplit(landed).path == "/reset"

    other.initialize(url=landed)

    assert events == ["SIGNED_IN", "PASSWORD_RECOVERY"]
    assert user_of(other).email == email


@pytest.mark.usefixtures("client")
def test_recover_with_pkce(open_client: Open, email: str, service: Service) -> None:
    other = open_client(flow_type="pkce")
    events: list[AuthChangeEvent] = []
    other.on_auth_state_change(lambda event, _: events.append(event))
    other.reset_password_for_email(email)
    code = query(follow(service.mailbox.wait(email, number=2).link))["code"]

    other.exchange_code_for_session({"auth_code": code, "code_verifier": "", "redirect_to": ""})

    assert events == ["PASSWORD_RECOVERY"]
    assert user_of(other).email == email


@pytest.mark.usefixtures("client")
def test_recover_by_code(open_client: Open, email: str, service: Service) -> None:
    other = open_client()
    other.reset_password_for_email(email)
    code = service.mailbox.wait(email, number=2).code
    other.verify_otp({"email": email, "type": "recovery", "token": code})
    assert user_of(other).email == email


@pytest.mark.usefixtures("client")
def test_sign_in_by_magic_link(open_client: Open, email: str, service: Service) -> None:
    other = open_client()
    other.sign_in_with_otp({"email": email, "options": {"email_redirect_to": "https://app.example.com/in"}})
    landed = follow(service.mailbox.wait(email, number=2).link)
    assert urlsplit(landed).path == "/in"
    other.initialize(url=landed)
    assert user_of(other).email == email


def test_sign_up_by_one_time_code(open_client: Open, email: str, service: Service) -> None:
    client = open_client()
    client.sign_in_with_otp({"email": email, "options": {"data": {"plan": "free"}}})
    client.verify_otp({"email": email, "type": "email", "token": service.mailbox.wait(email).code})
    assert user_of(client).user_metadata["plan"] == "free"


def test_resend_confirmation(open_client: Open, email: str, service: Service) -> None:
    client = open_client()
    client.sign_up({"email": email, "password": PASSWORD})
    first = service.mailbox.wait(email)
    time.sleep(2.1)
    assert client.resend({"type": "signup", "email": email}).message_id
    second = service.mailbox.wait(email, number=2)
    assert "error_code=otp_expired" in follow(first.link)
    client.verify_otp({"email": email, "type": "signup", "token": second.code})
    assert user_of(client).email == email


# Account changes by the user


def new_email() -> str:
    return f"u-{uuid.uuid4()}@example.com"


def test_change_metadata(client: SyncGoTrueClient) -> None:
    client.update_user({"data": {"name": "Ada", "plan": "free"}})
    user = client.update_user({"data": {"plan": None}}).user
    assert user.user_metadata["name"] == "Ada"
    assert "plan" not in user.user_metadata
    assert session_of(client).user.user_metadata == user.user_metadata


def test_change_password(client: SyncGoTrueClient, open_client: Open, email: str) -> None:
    other = open_client()
    other.sign_in_with_password({"email": email, "password": PASSWORD})
    with pytest.raises(AuthApiError) as raised:
        client.update_user({"password": PASSWORD})
    assert (raised.value.status, raised.value.code) == (422, "same_password")

    client.update_user({"password": "another horse 2"})

    assert user_of(client).email == email
    assert_signed_out(other)
    with pytest.raises(AuthApiError):
        other.sign_in_with_password({"email": email, "password": PASSWORD})
    other.sign_in_with_password({"email": email, "password": "another horse 2"})


def test_reauthenticate(client: SyncGoTrueClient, email: str, service: Service) -> None:
    client.reauthenticate()
    received = service.mailbox.wait(email, number=2)
    assert received.link == ""
    client.update_user({"password": "another horse 2", "nonce": received.code})


@pytest.mark.parametrize("flow_type", ["implicit", "pkce"])
@pytest.mark.usefixtures("client")
def test_change_email(open_client: Open, email: str, service: Service, flow_type: str) -> None:
    changing = open_client(flow_type=flow_type)
    changing.sign_in_with_password({"email": email, "password": PASSWORD})
    new_address = new_email()
    changed_user = changing.update_user(
        {"email": new_address}, {"email_redirect_to": "https://app.example.com/me"}
    ).user
    assert (changed_user.email, changed_user.new_email) == (email, new_address)

    first = changing.verify_otp(
        {"email": new_address, "type": "email_change", "token": service.mailbox.wait(new_address).code}
    )
    assert (first.user, first.session) == (None, None)
    landed = follow(service.mailbox.wait(email, number=2).link)
    assert urlsplit(landed).path == "/me"
    if flow_type == "pkce":
        parameters = {"auth_code": query(landed)["code"], "code_verifier": "", "redirect_to": ""}
        changing.exchange_code_for_session(parameters)  # type: ignore[arg-type]
    else:
        changing.initialize(url=landed)

    assert user_of(changing).email == new_address
    open_client().sign_in_with_password({"email": new_address, "password": PASSWORD})


@pytest.mark.usefixtures("client")
def test_change_to_taken_email_is_rejected(open_client: Open, email: str) -> None:
    anonymous = open_client()
    anonymous.sign_in_anonymously()
    with pytest.raises(AuthApiError) as raised:
        anonymous.update_user({"email": email})
    assert (raised.value.status, raised.value.code) == (422, "email_exists")


def test_resend_email_change(client: SyncGoTrueClient, email: str, service: Service) -> None:
    new_address = new_email()
    client.update_user({"email": new_address})
    first = service.mailbox.wait(new_address)
    time.sleep(2.1)
    assert client.resend({"type": "email_change", "email": email}).message_id
    second = service.mailbox.wait(new_address, number=2)
    assert "error_code=otp_expired" in follow(first.link)
    assert "message=Confirmation+link+accepted" in follow(second.link)


def test_sign_up_by_phone(open_client: Open) -> None:
    client, phone = open_client(), f"+{PHONES[10]}"
    client.sign_up({"phone": phone, "password": PASSWORD})
    with pytest.raises(AuthApiError) as raised:
        client.sign_in_with_password({"phone": phone, "password": PASSWORD})
    assert (raised.value.status, raised.value.code) == (400, "phone_not_confirmed")
    client.verify_otp({"phone": phone, "type": "sms", "token": FIXED_CODE})
    assert user_of(client).phone == PHONES[10]
    open_client().sign_in_with_password({"phone": phone, "password": PASSWORD})


def test_sign_in_by_sms_code(open_client: Open) -> None:
    client, phone = open_client(), f"+{PHONES[11]}"
    assert client.sign_in_with_otp({"phone": phone, "options": {"data": {"plan": "free"}}}).message_id == "test-otp"
    with pytest.raises(AuthApiError) as raised:
        client.verify_otp({"phone": phone, "type": "sms", "token": "000000"})
    assert (raised.value.status, raised.value.code) == (403, "otp_expired")
    client.verify_otp({"phone": phone, "type": "sms", "token": FIXED_CODE})
    assert user_of(client).user_metadata["plan"] == "free"


def test_resend_sms_code(open_client: Open) -> None:
    client, phone = open_client(), f"+{PHONES[12]}"
    client.sign_up({"phone": phone, "password": PASSWORD})
    time.sleep(1.1)
    assert client.resend({"type": "sms", "phone": phone}).message_id == "test-otp"
    client.verify_otp({"phone": phone, "type": "sms", "token": FIXED_CODE})


def test_change_phone(client: SyncGoTrueClient, email: str) -> None:
    phone = f"+{PHONES[13]}"
    assert client.update_user({"phone": phone}).user.new_phone == PHONES[13]
    client.verify_otp({"phone": phone, "type": "phone_change", "token": FIXED_CODE})
    user = user_of(client)
    assert (user.email, user.phone, user.app_metadata["providers"]) == (email, PHONES[13], ["email", "phone"])


def test_convert_anonymous_user(open_client: Open, service: Service) -> None:
    client, email = open_client(), new_email()
    anonymous = client.sign_in_anonymously({"options": {"data": {"theme": "dark"}}}).user
    assert anonymous is not None
    assert anonymous.is_anonymous
    client.update_user({"email": email, "password": PASSWORD})
    client.verify_otp({"email": email, "type": "email_change", "token": service.mailbox.wait(email).code})
    user = user_of(client)
    assert (user.id, user.is_anonymous, user.user_metadata["theme"]) == (anonymous.id, False, "dark")
    open_client().sign_in_with_password({"email": email, "password": PASSWORD})


def test_accept_invitation_by_link(admin: SyncGoTrueAdminAPI, open_client: Open, email: str, service: Service) -> None:
    options = {"redirect_to": "https://app.example.com/welcome", "data": {"team": "red"}}
    invited = admin.invite_user_by_email(email, options).user  # type: ignore[arg-type]
    assert invited.invited_at is not None
    assert invited.user_metadata == {"team": "red"}
    target = urlsplit(follow(service.mailbox.wait(email).link))
    assert target.path == "/welcome"
    fragment = parse_qs(target.fragment)
    client = open_client()
    client.set_session(fragment["access_token"][0], fragment["refresh_token"][0])
    client.update_user({"password": PASSWORD})
    open_client().sign_in_with_password({"email": email, "password": PASSWORD})
    with pytest.raises(AuthApiError) as raised:
        admin.invite_user_by_email(email)
    assert (raised.value.status, raised.value.code) == (422, "email_exists")


def test_accept_invitation_by_code(admin: SyncGoTrueAdminAPI, open_client: Open, email: str, service: Service) -> None:
    admin.invite_user_by_email(email)
    client = open_client()
    client.verify_otp({"email": email, "type": "invite", "token": service.mailbox.wait(email).code})
    assert user_of(client).email == email


def test_generate_a_link_of_every_type(
    admin: SyncGoTrueAdminAPI, open_client: Open, email: str, service: Service
) -> None:
    made = admin.generate_link({"type": "signup", "email": email, "password": PASSWORD})
    assert (made.user.email, made.properties.verification_type) == (email, "signup")
    assert query(made.properties.action_link)["token"] == made.properties.hashed_token
    assert "type=signup" in follow(made.properties.action_link)
    open_client().sign_in_with_password({"email": email, "password": PASSWORD})
    for type_ in ("magiclink", "recovery"):
        made = admin.generate_link({"type": type_, "email": email})  # type: ignore[arg-type,misc]
        client = open_client()
        client.verify_otp({"email": email, "type": type_, "token": made.properties.email_otp})
        assert user_of(client).email == email
    new_address = new_email()
    links = [
        admin.generate_link({"type": type_, "email": email, "new_email": new_address}).properties.action_link
        for type_ in ("email_change_current", "email_change_new")
    ]
    assert "message=" in follow(links[0])
    assert "type=email_change" in follow(links[1])
    open_client().sign_in_with_password({"email": new_address, "password": PASSWORD})
    invited = new_email()
    made = admin.generate_link({"type": "invite", "email": invited})
    assert service.mailbox.wait(invited).link == made.properties.action_link
    client = open_client()
    client.verify_otp({"type": "invite", "token_hash": made.properties.hashed_token})
    assert user_of(client).email == invited


def test_admin_manages_users(admin: SyncGoTrueAdminAPI, open_client: Open, email: str) -> None:
    wish = {"email": email, "password": PASSWORD, "email_confirm": True, "user_metadata": {"a": 1}}
    made = admin.create_user(wish).user  # type: ignore[arg-type]
    assert (made.email, made.user_metadata["a"]) == (email, 1)
    client = open_client()
    client.sign_in_with_password({"email": email, "password": PASSWORD})
    assert made.id in {user.id for user in admin.list_users()}
    assert len(admin.list_users(page=1, per_page=1)) == 1
    new_address = new_email()
    changed = admin.update_user_by_id(
        made.id, {"email": new_address, "user_metadata": {"b": 2}, "ban_duration": "1h"}
    ).user
    assert (changed.email, changed.user_metadata["b"]) == (new_address, 2)
    with pytest.raises(AuthApiError) as raised:
        client.get_user()
    assert raised.value.code == "user_banned"
    admin.update_user_by_id(made.id, {"ban_duration": "none"})
    assert user_of(client).email == new_address
    assert admin.mfa.list_factors({"user_id": made.id}) == []
    with pytest.raises(AuthApiError) as raised:
        admin.mfa.delete_factor({"user_id": made.id, "id": str(uuid.uuid4())})
    assert raised.value.code == "mfa_factor_not_found"
    admin.delete_user(made.id, should_soft_delete=True)
    assert admin.get_user_by_id(made.id).user.email != new_address
    admin.delete_user(made.id)
    with pytest.raises(AuthApiError) as raised:
        admin.get_user_by_id(made.id)
    assert (raised.value.status, raised.value.code) == (404, "user_not_found")


def totp_code(secret: str) -> str:
    """The current TOTP code (RFC 6238), as an authenticator app shows it."""
    digest = hmac.digest(base64.b32decode(secret), int(time.time() // 30).to_bytes(8), "sha1")
    start = digest[-1] & 15
    return f"{(int.from_bytes(digest[start : start + 4]) & 0x7FFFFFFF) % 1_000_000:06d}"


def test_totp_factor_raises_session_to_aal2(client: SyncGoTrueClient, admin: SyncGoTrueAdminAPI, email: str) -> None:
    def levels() -> tuple[str | None, str | None]:
        response = client.mfa.get_authenticator_assurance_level()
        return response.current_level, response.next_level

    enrolled = client.mfa.enroll({"factor_type": "totp", "friendly_name": "phone", "issuer": "My app"})
    assert enrolled.type == "totp"
    assert enrolled.totp is not None
    secret = enrolled.totp.secret
    assert levels() == ("aal1", "aal1")
    challenge = client.mfa.challenge({"factor_id": enrolled.id})
    with pytest.raises(AuthApiError) as raised:
        client.mfa.verify({"factor_id": enrolled.id, "challenge_id": challenge.id, "code": "12345"})
    assert raised.value.code == "mfa_verification_failed"
    client.mfa.verify({"factor_id": enrolled.id, "challenge_id": challenge.id, "code": totp_code(secret)})
    assert levels() == ("aal2", "aal2")
    client.sign_in_with_password({"email": email, "password": PASSWORD})
    assert levels() == ("aal1", "aal2")
    with pytest.raises(AuthApiError) as raised:
        client.mfa.unenroll({"factor_id": enrolled.id})
    assert raised.value.code == "insufficient_aal"
    client.mfa.challenge_and_verify({"factor_id": enrolled.id, "code": totp_code(secret)})
    assert levels() == ("aal2", "aal2")
    assert [factor.id for factor in client.mfa.list_factors().totp] == [enrolled.id]
    assert client.mfa.unenroll({"factor_id": enrolled.id}).id == enrolled.id
    client.refresh_session()
    assert levels() == ("aal1", "aal1")

    again = client.mfa.enroll({"factor_type": "totp", "friendly_name": "lost"})
    user_id = user_of(client).id
    (factor,) = admin.mfa.list_factors({"user_id": user_id})
    assert factor.id == again.id
    assert admin.mfa.delete_factor({"user_id": user_id, "id": again.id}).id == again.id
    assert client.mfa.list_factors().all == []


def test_listing_users_requires_administrator(client: SyncGoTrueClient, open_client: Open) -> None:
    session = client.get_session()
    assert session is not None
    user_admin = open_client(headers={"Authorization": f"Bearer {session.access_token}"}).admin
    with pytest.raises(AuthApiError) as raised:
        user_admin.list_users()
    assert (raised.value.status, raised.value.code) == (403, "not_admin")


def test_administrator_manages_oauth_clients(admin: SyncGoTrueAdminAPI) -> None:
    made = admin.oauth.create_client(
        CreateOAuthClientParams(client_name="Shop", redirect_uris=["https://client.example.com/cb"])
    ).client
    assert made is not None
    assert len(made.client_secret or "") == 43

    # The library cannot read all clients that other tests register; the newest is the first.
    assert [client.client_id for client in admin.oauth.list_clients(PageParams(page=1, per_page=1)).clients] == [
        made.client_id
    ]
    changed = admin.oauth.update_client(made.client_id, UpdateOAuthClientParams(client_name="Store")).client
    assert changed is not None
    assert changed.client_name == "Store"
    renewed = admin.oauth.regenerate_client_secret(made.client_id).client
    assert renewed is not None
    assert renewed.client_secret not in (None, made.client_secret)
    admin.oauth.delete_client(made.client_id)
    with pytest.raises(AuthApiError, match="OAuth client not found"):
        admin.oauth.get_client(made.client_id)
