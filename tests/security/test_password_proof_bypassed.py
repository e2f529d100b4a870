"""Attack: a stolen access token changes the password without the proof that the operator requires for it.

The attacker adds an address, a phone or an identity first, and proves the password change with that.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import Identity, User
from authsvc.conf import Provider
from tests.accounts.administration import admin_requests
from tests.accounts.passkeys import passkey_requests
from tests.accounts.passkeys.passkey_requests import PARTY
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tests.factories import CHALLENGE, PASSWORD, VERIFIER, SignIn, make_session, make_user
from tests.fakes.http_peer import MockedServer
from tests.fakes.issuer import Issuer
from tests.oauthproviders.browser import Browser, GitHub, address, provider_settings, start_link_flow
from tests.oauthproviders.conftest import github, server  # noqa: F401  (fixtures)
from tests.observations import backdate_rate_limits, redirect_query, table_contents
from tests.tokens.token_requests import exchange_code, read_claims

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_request_limits", "github")]

EMAIL = "ada@example.com"
PHONE = "15551234567"
CODE = "123456"
NEW = "attacker@example.com"
NEW_PASSWORD = "chosen by the attacker"

PROOFS: dict[str, dict[str, Any]] = {
    "nonce": {"update_requires_reauthentication": True},
    "recent": {"update_requires_reauthentication": True, "reauthentication_interval": timedelta(hours=24)},
    "current": {"update_requires_current": True},
    "both": {"update_requires_reauthentication": True, "update_requires_current": True},
}
NEEDED = {"reauthentication_needed", "current_password_required"}


@pytest.fixture(autouse=True)
def methods(auth_config: ChangeConfig, github: GitHub) -> None:  # noqa: F811  (the fixture)
    auth_config(
        signup={"phone_enabled": True, "manual_linking_enabled": True, "anonymous_enabled": True},
        sms={"test_codes": {PHONE: CODE}},
        mailer={"secure_email_change_enabled": False},
        passkeys={"enabled": True},
        webauthn=PARTY,
    )
    github.set_user(NEW)


@pytest.fixture(params=PROOFS)
def proof(request: pytest.FixtureRequest, auth_config: ChangeConfig) -> str:
    auth_config(passwords=PROOFS[request.param])
    return str(request.param)


def stolen(**columns: Any) -> SignIn:
    """The token of a session that began by password two days ago."""
    user = make_user(**{"email": EMAIL, **columns})
    return make_session(user, created_at=timezone.now() - timedelta(days=2))


def change_password(api: Api, token: str, **proof: str) -> ApiResponse:
    return api.put("/user", {"password": NEW_PASSWORD, **proof}, bearer=token)


@pytest.mark.usefixtures("proof")
@pytest.mark.parametrize("contact", [{"phone": PHONE}, {"email": NEW}, {"phone": PHONE, "email": NEW}])
@pytest.mark.parametrize("sms_autoconfirm", [False, True])
def test_new_address_or_phone_needs_the_proof(
    contact: dict[str, str], sms_autoconfirm: bool, api: Api, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    auth_config(sms={"autoconfirm": sms_autoconfirm})
    token = stolen().access_token
    before = table_contents()
    for wrong in ({}, {"nonce": "", "current_password": ""}):
        assert api.put("/user", {**contact, **wrong}, bearer=token).json()["error_code"] in NEEDED
    assert table_contents() == before
    assert (mailbox.emails, mailbox.sms) == ([], [])


def nonce_for(api: Api, token: str, mailbox: Mailbox) -> str:
    backdate_rate_limits(timedelta(hours=1))
    User.objects.update(reauthentication_sent_at=None)
    mailbox.clear()
    assert api.get("/reauthenticate", bearer=token).status_code == 200
    return str(mailbox.emails[0].variables["Token"])


def test_owner_with_the_proof_changes_address_phone_and_password(proof: str, api: Api, mailbox: Mailbox) -> None:
    token = stolen().access_token
    for change in ({"phone": PHONE}, {"email": "new@example.com"}, {"password": NEW_PASSWORD}):
        given = {"current_password": PASSWORD} if proof in ("current", "both") else {}
        if proof != "current":
            given["nonce"] = nonce_for(api, token, mailbox)
        assert api.put("/user", {**change, **given}, bearer=token).status_code == 200
        if proof != "current":  # a nonce is good for one change
            again = api.put("/user", {"email": "third@example.com", **given}, bearer=token)
            assert again.json()["error_code"] == "reauthentication_not_valid"


@pytest.mark.parametrize("wrong", [{"nonce": "000000"}, {"current_password": "wrong"}])
def test_wrong_proof_is_refused_in_a_fresh_session(
    wrong: dict[str, str], api: Api, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    auth_config(passwords=PROOFS["nonce" if "nonce" in wrong else "current"])
    token = make_session(make_user(email=EMAIL)).access_token
    if "nonce" in wrong and nonce_for(api, token, mailbox) == "000000":
        wrong = {"nonce": "000001"}
    for change in ({"phone": PHONE}, {"email": NEW}, {"password": NEW_PASSWORD}):
        response = api.put("/user", {**change, **wrong}, bearer=token)
        assert response.json()["error_code"] in {"reauthentication_not_valid", "current_password_invalid"}
    assert admin_requests.can_sign_in(api, PASSWORD, email=EMAIL)


@pytest.mark.parametrize("pkce", [False, True])
@pytest.mark.parametrize("contact", [{"phone": PHONE}, {"email": NEW}])
def test_code_of_a_change_is_not_a_recovery(
    contact: dict[str, str], pkce: bool, api: Api, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    """The change began before the operator required proofs."""
    challenge = {"code_challenge": CHALLENGE, "code_challenge_method": "s256"} if pkce else {}
    assert api.put("/user", {**contact, **challenge}, bearer=stolen().access_token).status_code == 200
    if "phone" in contact:
        response = api.post("/verify", {"type": "phone_change", "phone": PHONE, "token": CODE}).json()
    else:
        secret: Any = mailbox.emails[0].variables
        link = f"/verify?type=email_change&token={secret['TokenHash']}"
        if pkce:
            response = exchange_code(api, redirect_query(api.get(link))["code"], VERIFIER).json()
        else:
            response = api.post("/verify", {"type": "email_change", "token_hash": secret["TokenHash"]}).json()
    token = response["access_token"]
    assert [entry["method"] for entry in read_claims(token)["amr"]] == [f"{next(iter(contact))}_change"]
    for proof in PROOFS.values():
        auth_config(passwords={"update_requires_reauthentication": False, "update_requires_current": False, **proof})
        assert change_password(api, token).json()["error_code"] in NEEDED
    # A recovery by its own link is one, as before.
    auth_config(passwords={"update_requires_reauthentication": False, "update_requires_current": True})
    recovered = make_session(User.objects.get(), method="recovery").access_token
    assert change_password(api, recovered).status_code == 200


@pytest.mark.usefixtures("proof")
@pytest.mark.parametrize("verified", [True, False])
def test_linked_identity_gives_the_account_no_address(
    verified: bool,
    proof: str,
    api: Api,
    github: GitHub,  # noqa: F811  (the fixture)
    auth_config: ChangeConfig,
) -> None:
    github.set_user(address(NEW, verified=verified))
    signed_in = stolen(email="", phone=PHONE, phone_confirmed_at=timezone.now())
    if proof == "recent":  # the flow begins just in time
        signed_in = make_session(signed_in.user, created_at=timezone.now() - timedelta(hours=23, minutes=59))
    state = start_link_flow(api, signed_in.access_token)
    if proof == "recent":
        type(signed_in.session).objects.filter(id=signed_in.session.id).update(
            created_at=timezone.now() - timedelta(hours=25)
        )
    assert "access_token=" in Browser().callback(state).headers["Location"]
    row = User.objects.get(id=signed_in.user.id)
    assert (row.email, row.email_change) == (None, "")
    assert Identity.objects.filter(user=row, provider="github").exists()
    assert api.post("/recover", {"email": NEW}).status_code == 200
    assert change_password(api, signed_in.access_token).json()["error_code"] in NEEDED
    # Without the settings, and for a user who has nothing to protect, linking gives the address.
    auth_config(passwords={"update_requires_reauthentication": False, "update_requires_current": False})
    guest = api.post("/signup", {}).json()
    github.set_user("guest@example.com", id=8)
    Browser().callback(start_link_flow(api, guest["access_token"]))
    assert User.objects.get(id=guest["user"]["id"]).email == "guest@example.com"


@pytest.mark.usefixtures("proof")
def test_unlinking_does_not_give_the_account_another_address(api: Api) -> None:
    signed_in = stolen()
    Identity.objects.create(
        user=signed_in.user, provider="github", provider_id="7",
        identity_data={"email": NEW, "email_verified": True}, created_at=timezone.now() + timedelta(minutes=1),
    )  # fmt: skip
    own = signed_in.user.identities.get(provider="email")
    response = api.delete(f"/user/identities/{own.id}", bearer=signed_in.access_token)
    assert (response.status_code, response.json()["error_code"]) == (400, "reauthentication_needed")
    assert User.objects.get().email == EMAIL
    other = signed_in.user.identities.get(provider="github")
    assert api.delete(f"/user/identities/{other.id}", bearer=signed_in.access_token).status_code == 200


@pytest.mark.parametrize("provider", ["email", "phone"])
def test_unlinking_does_not_remove_the_last_address_or_phone(
    provider: str, api: Api, auth_config: ChangeConfig
) -> None:
    """Without one, a sign-in with the other identity would add the attacker's."""
    auth_config(passwords=PROOFS["nonce"])
    contact = {"email": EMAIL} if provider == "email" else {"email": "", "phone": PHONE}
    signed_in = stolen(**contact)
    Identity.objects.create(
        user=signed_in.user, provider="github", provider_id="7",
        identity_data={"email": NEW, "email_verified": False}, created_at=timezone.now() + timedelta(minutes=1),
    )  # fmt: skip
    Identity.objects.filter(user=signed_in.user, provider="email").update(provider=provider)
    own = signed_in.user.identities.get(provider=provider)
    response = api.delete(f"/user/identities/{own.id}", bearer=signed_in.access_token)
    assert (response.status_code, response.json()["error_code"]) == (400, "reauthentication_needed")
    # With another contact, which gets the nonce, it may be unlinked.
    User.objects.update(email="second@example.com", phone=PHONE)
    Identity.objects.filter(provider="email").update(identity_data={"email": "second@example.com"})
    assert api.delete(f"/user/identities/{own.id}", bearer=signed_in.access_token).status_code == 200


def test_new_sign_in_method_needs_the_recent_session_that_it_would_replace(
    api: Api,
    auth_config: ChangeConfig,
    server: MockedServer,  # noqa: F811  (the fixture)
) -> None:
    issuer = Issuer(server, path="/realms/main")
    auth_config(
        passwords=PROOFS["recent"],
        providers={
            "github": provider_settings(url=server.url),
            "keycloak": Provider(enabled=True, client_ids=("cid",), url=issuer.name),
        },
    )
    old = stolen()
    body = {"id_token": issuer.token(), "provider": "keycloak", "link_identity": True}
    query = "provider=github&skip_http_redirect=true"

    def attempts(token: str) -> list[ApiResponse]:
        return [
            passkey_requests.begin(api, token),
            api.post("/token?grant_type=id_token", body, bearer=token),
            api.get(f"/user/identities/authorize?{query}", bearer=token),
        ]

    for response in attempts(old.access_token):
        assert (response.status_code, response.json()["error_code"]) == (400, "reauthentication_needed")
    assert Identity.objects.count() == 1
    fresh = make_session(old.user)
    assert [response.status_code for response in attempts(fresh.access_token)] == [200, 200, 200]


def test_code_of_a_change_does_not_make_a_session_recent(api: Api, auth_config: ChangeConfig) -> None:
    assert api.put("/user", {"phone": PHONE}, bearer=stolen().access_token).status_code == 200
    auth_config(passwords=PROOFS["recent"])
    response = api.post("/verify", {"type": "phone_change", "phone": PHONE, "token": CODE}).json()
    assert change_password(api, response["access_token"]).json()["error_code"] == "reauthentication_needed"
    query = "provider=github&skip_http_redirect=true"
    linked = api.get(f"/user/identities/authorize?{query}", bearer=response["access_token"])
    assert linked.json()["error_code"] == "reauthentication_needed"


def test_anonymous_user_becomes_permanent_without_a_proof(proof: str, api: Api) -> None:
    token = api.post("/signup", {}).json()["access_token"]
    assert api.put("/user", {"phone": PHONE, "password": PASSWORD}, bearer=token).status_code == 200
    assert api.post("/verify", {"type": "phone_change", "phone": PHONE, "token": CODE}).status_code == 200
    assert admin_requests.can_sign_in(api, PASSWORD, phone=PHONE)
    # From now on there is something to prove.
    refused = api.put("/user", {"email": NEW}, bearer=token)
    assert refused.status_code == 200 if proof == "recent" else refused.json()["error_code"] in NEEDED


def without_contact(api: Api, *, age: timedelta) -> str:
    """The token of a permanent user without email and phone, who signed in at a provider so long ago."""
    user = make_user(email="", is_anonymous=False)
    return make_session(user, created_at=timezone.now() - age).access_token


@pytest.mark.parametrize("contact", [{"phone": PHONE}, {"email": NEW}])
def test_user_without_contact_adds_the_first_one_after_a_sign_in(
    contact: dict[str, str], api: Api, auth_config: ChangeConfig
) -> None:
    auth_config(passwords=PROOFS["nonce"], api={"docs_enabled": True})
    old = without_contact(api, age=timedelta(minutes=11))
    assert api.put("/user", contact, bearer=old).json()["error_code"] == "reauthentication_needed"
    assert "Sign in again" in api.get("/reauthenticate", bearer=old).json()["hint"]
    recent = without_contact(api, age=timedelta(minutes=9))
    assert change_password(api, recent).json()["error_code"] == "reauthentication_needed"
    both = {**contact, "password": NEW_PASSWORD}
    assert api.put("/user", both, bearer=recent).json()["error_code"] == "reauthentication_needed"
    assert api.put("/user", contact, bearer=recent).status_code == 200


def test_user_without_contact_adds_a_sign_in_method_only_after_a_sign_in(api: Api, auth_config: ChangeConfig) -> None:
    """A sign-in with the new method would add a contact."""
    auth_config(passwords=PROOFS["nonce"])
    old, recent = (without_contact(api, age=timedelta(minutes=age)) for age in (11, 9))
    query = "provider=github&skip_http_redirect=true"
    responses = [api.get(f"/user/identities/authorize?{query}", bearer=token) for token in (old, recent)]
    assert [response.status_code for response in responses] == [400, 200]
    assert passkey_requests.begin(api, old).json()["error_code"] == "reauthentication_needed"


def test_interval_exempts_younger_sessions_only(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(passwords=PROOFS["recent"])
    young = make_session(make_user(), created_at=timezone.now() - timedelta(hours=23))
    assert change_password(api, young.access_token).status_code == 200
    assert change_password(api, stolen().access_token).json()["error_code"] == "reauthentication_needed"
