"""Attack: a session at aal1 changes the sign-in methods of a user who has a second factor, and so gets around it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest

from accounts.models import Identity, Passkey, User
from authsvc.conf import Provider
from tests.accounts.administration import admin_requests
from tests.accounts.mfa import factor_requests
from tests.accounts.mfa.factor_requests import Owner, make_owner
from tests.accounts.passkeys import passkey_requests
from tests.accounts.passkeys.passkey_requests import PARTY
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tests.factories import CHALLENGE, PASSWORD, make_factor, make_session, make_user
from tests.fakes.authenticator import Authenticator
from tests.fakes.http_peer import MockedServer
from tests.fakes.issuer import Issuer
from tests.oauthproviders.browser import Browser, GitHub, start_link_flow
from tests.oauthproviders.conftest import github, server  # noqa: F401  (fixtures)
from tests.observations import backdate_rate_limits, redirect_query, table_contents
from tokens.models import FlowState, Session

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_request_limits", "github")]

PHONE = "15551234567"
CODE = "123456"
NEW = "attacker@example.com"

Change = Callable[[Api, str, User], ApiResponse]


@pytest.fixture(autouse=True)
def methods(auth_config: ChangeConfig, github: GitHub) -> None:  # noqa: F811  (the fixture)
    auth_config(
        signup={"phone_enabled": True, "manual_linking_enabled": True},
        sms={"test_codes": {PHONE: CODE}},
        mfa={"recovery_codes_enabled": True},
        passkeys={"enabled": True},
        webauthn=PARTY,
    )


@pytest.fixture
def issuer(server: MockedServer, auth_config: ChangeConfig) -> Issuer:  # noqa: F811  (the fixture)
    issuer = Issuer(server, path="/realms/main")
    auth_config(providers={"keycloak": Provider(enabled=True, client_ids=("cid",), url=issuer.name)})
    return issuer


def link_by_browser(api: Api, token: str, user: User) -> ApiResponse:
    query = urlencode({"provider": "github", "skip_http_redirect": "true"})
    return api.get(f"/user/identities/authorize?{query}", bearer=token)


def link_with_pkce(api: Api, token: str, user: User) -> ApiResponse:
    query = urlencode({
        "provider": "github", "skip_http_redirect": "true", "code_challenge": CHALLENGE,
        "code_challenge_method": "s256",
    })  # fmt: skip
    return api.get(f"/user/identities/authorize?{query}", bearer=token)


def unlink(provider: str) -> Change:
    def request(api: Api, token: str, user: User) -> ApiResponse:
        identity = Identity.objects.get(user=user, provider=provider)
        return api.delete(f"/user/identities/{identity.id}", bearer=token)

    return request


def put(**body: Any) -> Change:
    return lambda api, token, user: api.put("/user", body, bearer=token)


def enroll(api: Api, token: str, user: User) -> ApiResponse:
    return factor_requests.enroll(api, token, friendly_name="another")


def unenroll(api: Api, token: str, user: User) -> ApiResponse:
    return api.delete(f"/factors/{user.factors.get(status='verified').id}", bearer=token)


def recovery_codes(api: Api, token: str, user: User) -> ApiResponse:
    return api.post("/factors/recovery_codes", bearer=token)


def add_passkey(api: Api, token: str, user: User) -> ApiResponse:
    return api.post("/passkeys/registration/options", {}, bearer=token)


def remove_passkey(api: Api, token: str, user: User) -> ApiResponse:
    return api.delete(f"/passkeys/{user.passkeys.get().id}", bearer=token)


CHANGES: list[Change] = [
    link_by_browser, link_with_pkce, unlink("email"), unlink("github"), put(email=NEW), put(phone=PHONE),
    put(password="another long password"), put(email=NEW, data={"a": 1}), enroll, unenroll, recovery_codes,
    add_passkey, remove_passkey,
]  # fmt: skip


def make_account(owner: Owner) -> User:
    """The user of the factor, with a second identity and a passkey."""
    user = owner.user
    Identity.objects.create(
        user=user, provider="github", provider_id="77", identity_data={"email": user.email, "email_verified": True}
    )
    Passkey.objects.create(user=user, credential_id=b"c", public_key=b"k")
    return user


@pytest.mark.parametrize("method", ["password", "recovery", "otp", "magiclink", "passkey", "oauth"])
@pytest.mark.parametrize("change", CHANGES)
def test_session_below_aal2_cannot_change_sign_in_methods(change: Change, method: str, api: Api) -> None:
    owner = make_owner()
    user = make_account(owner)
    attacker = make_session(user, method=method)
    before = table_contents()
    response = change(api, attacker.access_token, user)
    assert response.status_code in (401, 403, 422)
    assert response.json()["error_code"] == "insufficient_aal"
    assert table_contents() == before


@pytest.mark.parametrize("change", CHANGES)
def test_session_at_aal2_changes_sign_in_methods(change: Change, api: Api) -> None:
    owner = make_owner()
    user = make_account(owner)
    token = factor_requests.step_up(api, owner)["access_token"]
    assert change(api, token, user).status_code in (200, 204)


@pytest.mark.parametrize("change", [change for change in CHANGES if change not in (unenroll, recovery_codes)])
def test_user_without_second_factor_needs_no_aal2(change: Change, api: Api) -> None:
    owner = make_owner(status="unverified")
    assert change(api, owner.token, make_account(owner)).status_code in (200, 204)


@pytest.mark.parametrize("change", CHANGES)
def test_token_from_before_the_level_was_lowered_is_refused(change: Change, api: Api) -> None:
    """The token says aal2, but an administrator has removed the factor that had raised the session."""
    owner = make_owner()
    user = make_account(owner)
    token = factor_requests.step_up(api, owner)["access_token"]
    make_factor(user, friendly_name="other", secret=factor_requests.SECRET)
    admin_requests.expect_success(api, "DELETE", f"/admin/users/{user.id}/factors/{owner.factor.id}")
    response = change(api, token, user)
    assert response.json()["error_code"] == "insufficient_aal"


def link_by_id_token(api: Api, token: str, issuer: Issuer) -> ApiResponse:
    body = {"id_token": issuer.token(), "provider": "keycloak", "link_identity": True}
    return api.post("/token?grant_type=id_token", body, bearer=token)


def test_id_token_is_linked_at_aal2_only(issuer: Issuer, api: Api) -> None:
    owner = make_owner()
    response = link_by_id_token(api, owner.token, issuer)
    assert (response.status_code, response.json()["error_code"]) == (403, "insufficient_aal")
    assert not Identity.objects.filter(provider="keycloak").exists()
    assert Session.objects.count() == 1
    token = factor_requests.step_up(api, owner)["access_token"]
    assert link_by_id_token(api, token, issuer).status_code == 200
    assert Identity.objects.filter(provider="keycloak", user=owner.user).exists()


@pytest.mark.parametrize("pkce", [False, True])
def test_linking_flow_that_outlives_the_level_of_its_session_is_refused(pkce: bool, api: Api) -> None:
    owner = make_owner()
    token = factor_requests.step_up(api, owner)["access_token"]
    challenge = {"code_challenge": CHALLENGE, "code_challenge_method": "s256"} if pkce else {}
    state = start_link_flow(api, token, **challenge)
    make_factor(owner.user, friendly_name="other", secret=factor_requests.SECRET)
    admin_requests.expect_success(api, "DELETE", f"/admin/users/{owner.user.id}/factors/{owner.factor.id}")
    response = Browser().callback(state)
    assert redirect_query(response)["error_code"] == "insufficient_aal"
    assert not Identity.objects.filter(provider="github").exists()


def test_linking_flow_from_before_the_factor_is_refused(api: Api) -> None:
    owner = make_owner(status="unverified")
    attacker = make_session(owner.user)
    state = start_link_flow(api, attacker.access_token)
    factor_requests.step_up(api, owner)  # completes the enrolment and ends the other session
    response = Browser().callback(state)
    assert redirect_query(response)["error_code"] == "bad_oauth_state"
    assert not Identity.objects.filter(provider="github").exists()


def test_linking_flow_of_an_earlier_version_counts_as_aal1(api: Api) -> None:
    owner = make_owner()
    token = factor_requests.step_up(api, owner)["access_token"]
    state = start_link_flow(api, token)
    FlowState.objects.update(linking_session_id=None)
    assert redirect_query(Browser().callback(state))["error_code"] == "insufficient_aal"


def test_linking_flow_at_aal2_is_completed(api: Api) -> None:
    owner = make_owner()
    state = start_link_flow(api, factor_requests.step_up(api, owner)["access_token"])
    assert "access_token=" in Browser().callback(state).headers["Location"]
    assert Identity.objects.filter(provider="github", user=owner.user).exists()


@pytest.mark.parametrize("contact", [{"phone": PHONE}, {"email": NEW}])
def test_change_that_began_before_the_factor_cannot_be_confirmed(
    contact: dict[str, str], api: Api, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    auth_config(mailer={"secure_email_change_enabled": False})
    owner = make_owner(status="unverified")
    assert api.put("/user", contact, bearer=make_session(owner.user).access_token).status_code == 200
    factor_requests.step_up(api, owner)
    if "phone" in contact:
        confirmed = api.post("/verify", {"type": "phone_change", "phone": PHONE, "token": CODE})
        again = {"type": "phone_change", "phone": PHONE}
    else:
        secret: Any = mailbox.emails[0].variables
        confirmed = api.post("/verify", {"type": "email_change", "token_hash": secret["TokenHash"]})
        again = {"type": "email_change", "email": str(owner.user.email)}
    assert confirmed.json()["error_code"] == "otp_expired"
    sent = len(mailbox.emails) + len(mailbox.sms)
    backdate_rate_limits(timedelta(hours=1))
    assert api.post("/resend", again).status_code == 200
    kinds = [str(message.type) for message in mailbox.emails] + [str(message.type) for message in mailbox.sms]
    changes = [kind for kind in kinds[sent:] if "change" in kind]
    assert not changes
    row = User.objects.get(id=owner.user.id)
    assert (row.email, row.phone, row.email_change, row.phone_change) == (owner.user.email, None, "", "")


def test_passkey_ceremony_from_before_the_factor_is_refused(api: Api) -> None:
    owner = make_owner(status="unverified")
    device = Authenticator()
    challenge = passkey_requests.start_registration(api, owner.token)
    make_factor(owner.user, friendly_name="other", secret=factor_requests.SECRET)
    credential = device.create(challenge["options"])
    response = passkey_requests.complete(api, owner.token, challenge["challenge_id"], credential)
    assert response.json()["error_code"] == "insufficient_aal"
    assert not Passkey.objects.exists()


def test_enrolment_from_before_the_factor_is_refused(api: Api) -> None:
    owner = make_owner(status="unverified")
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id)
    make_factor(owner.user, friendly_name="other", secret=factor_requests.SECRET)
    response = factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, factor_requests.code())
    assert response.json()["error_code"] == "insufficient_aal"


def test_recovery_by_email_does_not_replace_the_password(api: Api, mailbox: Mailbox) -> None:
    owner = make_owner()
    assert api.post("/recover", {"email": owner.user.email}).status_code == 200
    secret: Any = mailbox.emails[0].variables
    token = api.post("/verify", {"type": "recovery", "token_hash": secret["TokenHash"]}).json()["access_token"]
    response = api.put("/user", {"password": "another long password"}, bearer=token)
    assert (response.status_code, response.json()["error_code"]) == (401, "insufficient_aal")
    assert admin_requests.can_sign_in(api, PASSWORD, email=str(owner.user.email))


def test_removal_of_the_last_factor_leaves_sessions_without_its_level(api: Api) -> None:
    owner = make_owner()
    token = factor_requests.step_up(api, owner)["access_token"]
    assert unenroll(api, token, owner.user).status_code == 200
    assert Session.objects.get(id=owner.session.id).aal == "aal1"
    make_factor(owner.user, friendly_name="new", secret=factor_requests.SECRET)
    response = api.put("/user", {"email": NEW}, bearer=token)
    assert response.json()["error_code"] == "insufficient_aal"


def test_token_without_session_is_refused(api: Api) -> None:
    owner = make_owner()
    user = make_account(owner)
    token = admin_requests.token("authenticated", sub=str(user.id), aud="authenticated", jti=str(uuid4()))
    for change in (link_by_browser, unlink("email"), put(email=NEW), add_passkey, remove_passkey):
        assert change(api, token, user).json()["error_code"] == "insufficient_aal"
    assert api.get("/user", bearer=token).status_code == 200


def test_other_users_are_not_affected(api: Api) -> None:
    make_owner()
    other = make_session(make_user())
    assert put(email=NEW)(api, other.access_token, other.user).status_code == 200
