"""POST /token?grant_type=id_token: whose tokens are taken, for whom, and what they bring about."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from accounts.models import Identity, User
from authsvc.conf import Provider
from oauthproviders.oidc import openid_connect
from tests.conftest import Answer, Api, ChangeConfig, Mailbox
from tests.factories import SignIn, make_session, make_user
from tests.fakes.http_peer import Answer as PeerAnswer
from tests.fakes.http_peer import HttpPeer, in_json
from tests.fakes.issuer import Issuer, SigningKey, at_hash
from tests.observations import assert_error, audit_trail, table_contents
from tokens.models import AmrClaim, Session

pytestmark = pytest.mark.django_db

RSA = SigningKey()
BUILT_IN = ("apple", "google", "azure", "facebook", "keycloak", "kakao", "vercel_marketplace", "snapchat")
NONCE: dict[str, Any] = {"nonce": hashlib.sha256(b"n").hexdigest()}
MICROSOFT = "https://login.microsoftonline.com"
TENANT = f"{MICROSOFT}/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0"


@pytest.fixture(autouse=True)
def _nothing_is_kept() -> Iterator[None]:
    openid_connect.clear_caches()
    yield
    openid_connect.clear_caches()


@pytest.fixture
def issuer(peer: HttpPeer, auth_config: ChangeConfig) -> Issuer:
    """A Keycloak of our own, beside which every other provider is on too."""
    made = Issuer(peer, path="/realms/main", key=RSA)
    known = {name: Provider(enabled=True, client_ids=("cid", "second")) for name in BUILT_IN}
    known["keycloak"] = Provider(enabled=True, client_ids=("cid", "second"), url=made.name)
    auth_config(providers=known, federation={"ios_bundle_id": "com.example.app"})
    return made


@pytest.fixture
def well_known(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> Issuer:
    """The same, at which the documents of every issuer are found; which one it is, `called` says."""
    there = f"{issuer.server.url}{issuer.discovery_path}"
    monkeypatch.setattr(openid_connect.Issuer, "discovery_url", property(lambda _: there))
    return issuer


def called(issuer: Issuer, name: str) -> Issuer:
    issuer.name = name
    issuer.publish_discovery()
    return issuer


def present(api: Api, id_token: str | None, *, bearer: str = "", **given: Any) -> Answer:
    body = {"id_token": id_token, "provider": "keycloak", **given}
    return api.post(
        "/token?grant_type=id_token", {key: value for key, value in body.items() if value is not None}, bearer=bearer
    )


def entered(answer: Answer) -> dict[str, Any]:
    assert answer.status_code == 200, answer.content
    body: dict[str, Any] = answer.json()
    return body


def told(answer: Answer) -> tuple[int, Any, Any]:
    body = answer.json()
    assert set(body) == {"error", "error_description"}
    return answer.status_code, body["error"], body["error_description"]


def invalid(description: str) -> tuple[int, str, str]:
    return 400, "invalid request", description


# --- success ----------------------------------------------------------------------------------------------------------


def test_somebody_new_gets_an_account_and_a_session(api: Api, issuer: Issuer) -> None:
    body = entered(present(api, issuer.token()))

    assert set(body) == {"access_token", "token_type", "expires_in", "expires_at", "refresh_token", "user"}
    user = User.objects.get()
    (identity,) = body["user"]["identities"]
    assert body["user"]["id"] == str(user.id)
    assert (body["user"]["email"], body["user"]["app_metadata"]) == (
        "ada@example.com",
        {"provider": "keycloak", "providers": ["keycloak"]},
    )
    assert body["user"]["email_confirmed_at"]
    assert body["user"]["user_metadata"]["name"] == "Ada L"
    assert (identity["provider"], identity["id"]) == ("keycloak", "7")
    said = identity["identity_data"]
    assert {key: said[key] for key in ("iss", "sub", "email", "email_verified", "phone_verified", "aud")} == {
        "iss": issuer.name,
        "sub": "7",
        "email": "ada@example.com",
        "email_verified": True,
        "phone_verified": False,
        "aud": ["cid"],
    }
    assert AmrClaim.objects.get().authentication_method == "oauth"
    assert audit_trail() == [("user_signedup", {"provider": "keycloak"})]
    assert api.get("/user", bearer=body["access_token"]).json()["id"] == str(user.id)


def test_somebody_who_was_here_before_is_known_again(api: Api, issuer: Issuer) -> None:
    first = entered(present(api, issuer.token()))
    second = entered(present(api, issuer.token(name="Ada Lovelace")))
    assert second["user"]["id"] == first["user"]["id"]
    assert second["user"]["identities"][0]["identity_data"]["name"] == "Ada Lovelace"
    assert (User.objects.count(), Identity.objects.count(), Session.objects.count()) == (1, 1, 2)


def test_an_account_is_found_by_a_verified_address(api: Api, issuer: Issuer) -> None:
    user = make_user(email="ada@example.com")
    body = entered(present(api, issuer.token(email="ADA@example.com")))
    assert body["user"]["id"] == str(user.id)
    assert body["user"]["app_metadata"]["providers"] == ["email", "keycloak"]
    assert [each["provider"] for each in body["user"]["identities"]] == ["email", "keycloak"]


def test_subjects_that_differ_in_case_are_different_people(api: Api, issuer: Issuer) -> None:
    one = entered(present(api, issuer.token(sub="ada", email="a@example.com")))
    other = entered(present(api, issuer.token(sub="ADA", email="b@example.com")))
    assert one["user"]["id"] != other["user"]["id"]


def test_an_address_that_is_not_verified_is_mailed_and_lets_nobody_in(
    api: Api, issuer: Issuer, mailbox: Mailbox
) -> None:
    answer = present(api, issuer.token(email_verified="true"))
    text = "Unverified email with keycloak. A confirmation email has been sent to your keycloak email"
    assert_error(answer, 422, "provider_email_needs_verification", text)
    assert [letter.to for letter in mailbox.emails] == ["ada@example.com"]
    assert (User.objects.count(), Session.objects.count()) == (1, 0)


def test_without_an_address_the_account_waits_for_one(api: Api, issuer: Issuer, mailbox: Mailbox) -> None:
    answer = present(api, issuer.token(email=None))
    text = "Unverified email with keycloak. Verify the email with keycloak in order to sign in"
    assert_error(answer, 422, "provider_email_needs_verification", text)
    assert (User.objects.get().email, mailbox.emails, Session.objects.count()) == (None, [], 0)


def test_an_address_may_be_optional(api: Api, issuer: Issuer, auth_config: ChangeConfig) -> None:
    optional = Provider(enabled=True, client_ids=("cid",), url=issuer.name, email_optional=True)
    auth_config(providers={"keycloak": optional})
    assert entered(present(api, issuer.token(email=None)))["user"]["email"] == ""


# --- what must be there -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "description"),
    [
        ({"id_token": None, "provider": None}, "id_token required"),
        ({"id_token": None}, "id_token required"),
        ({"id_token": ""}, "id_token required"),
        ({"id_token": "abc", "provider": None}, "provider or client_id and issuer required"),
        ({"id_token": "abc", "provider": ""}, "provider or client_id and issuer required"),
        ({"id_token": "abc", "provider": None, "client_id": "cid"}, "provider or client_id and issuer required"),
        ({"id_token": "abc", "provider": None, "issuer": "x"}, "provider or client_id and issuer required"),
        ({"id_token": "abc"}, "Bad ID token"),
        (
            {"id_token": "abc", "link_identity": True},
            "Linking requires a valid user access token in Authorization",
        ),
    ],
)
def test_what_is_missing_is_told(api: Api, issuer: Issuer, given: dict[str, Any], description: str) -> None:
    assert told(present(api, **given)) == invalid(description)


@pytest.mark.parametrize("body", ['{"id_token": 7}', '{"id_token": "a", "link_identity": "yes"}', "[]", "{", '"a"'])
def test_another_form_is_no_request(api: Api, issuer: Issuer, body: str) -> None:
    answer = api.post("/token?grant_type=id_token", body)
    assert (answer.status_code, answer.json()["error_code"]) == (400, "bad_json")


def test_no_captcha_is_asked_for(api: Api, issuer: Issuer, auth_config: ChangeConfig) -> None:
    auth_config(captcha={"enabled": True})
    entered(present(api, issuer.token()))


# --- the token --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"key": SigningKey()},
        {"iss": "https://id.example.com"},
        {"exp": int(time.time()) - 1},
        {"nbf": int(time.time()) + 86400},
        {"sub": "a\0b"},
        {"sub": 7},
        {"sub": " "},
        {"sub": "x" * 5000},
        {"at_hash": at_hash("other")},
    ],
)
def test_a_token_that_does_not_hold_is_refused(api: Api, issuer: Issuer, changes: dict[str, Any]) -> None:
    before = table_contents()
    assert told(present(api, issuer.token(**changes), access_token="t")) == invalid("Bad ID token")
    assert table_contents() == before


def test_the_reason_is_in_the_log_and_the_token_is_not(
    api: Api, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    token = issuer.token(exp=int(time.time()) - 1)
    with caplog.at_level(logging.WARNING):
        present(api, token)
    (record,) = [each for each in caplog.records if getattr(each, "event", "") == "id_token.refused"]
    assert vars(record)["error"] == "the ID token has expired"
    assert token not in caplog.text


@pytest.mark.parametrize("sub", [None, ""])
def test_a_token_about_nobody_is_refused(api: Api, issuer: Issuer, sub: str | None) -> None:
    assert told(present(api, issuer.token(sub=sub))) == invalid("Missing sub claim in id_token")


@pytest.mark.parametrize(
    ("aud", "shown"),
    [("other", "other"), (["a", "b"], "a b"), ([], ""), (None, ""), ("CID", "CID"), ("com.example.app", None)],
)
def test_a_token_for_somebody_else_is_refused(api: Api, issuer: Issuer, aud: Any, shown: str | None) -> None:
    named = aud if shown is None else shown
    answer = present(api, issuer.token(aud=aud))
    assert told(answer) == invalid(f"Unacceptable audience in id_token: [{named}]")
    assert not User.objects.exists()


@pytest.mark.parametrize("aud", ["cid", "second", ["other", "second"]])
def test_every_client_id_is_ours(api: Api, issuer: Issuer, aud: Any) -> None:
    entered(present(api, issuer.token(aud=aud)))


def test_the_access_token_must_be_the_one_it_came_with(api: Api, issuer: Issuer) -> None:
    token = issuer.token(at_hash=at_hash("t"))
    entered(present(api, token, access_token="t"))
    entered(present(api, token))
    assert told(present(api, token, access_token="u")) == invalid("Bad ID token")


ONE_SIDED = invalid("Passed nonce and nonce in id_token should either both exist or not.")


@pytest.mark.parametrize(
    ("claims", "given", "refusal"),
    [
        (NONCE, {"nonce": "n"}, None),
        ({}, {}, None),
        ({"nonce": ""}, {"nonce": ""}, None),
        (NONCE, {"nonce": "m"}, (400, "invalid nonce", "Nonces mismatch")),
        ({"nonce": "n"}, {"nonce": "n"}, (400, "invalid nonce", "Nonces mismatch")),
        ({"nonce": NONCE["nonce"].upper()}, {"nonce": "n"}, (400, "invalid nonce", "Nonces mismatch")),
        ({"nonce": "ä"}, {"nonce": "ö"}, (400, "invalid nonce", "Nonces mismatch")),
        (NONCE, {}, ONE_SIDED),
        (NONCE, {"nonce": ""}, ONE_SIDED),
        ({}, {"nonce": "n"}, ONE_SIDED),
    ],
)
@pytest.mark.parametrize("is_skipped", [False, True])
def test_a_nonce_ties_the_token_to_a_request(
    api: Api,
    issuer: Issuer,
    auth_config: ChangeConfig,
    claims: dict[str, Any],
    given: dict[str, Any],
    refusal: tuple[int, str, str] | None,
    is_skipped: bool,
) -> None:
    provider = Provider(enabled=True, client_ids=("cid",), url=issuer.name, skip_nonce_check=is_skipped)
    auth_config(providers={"keycloak": provider})
    answer = present(api, issuer.token(**claims), **given)
    if refusal is None or is_skipped:
        entered(answer)
    else:
        assert told(answer) == refusal


@pytest.mark.parametrize(
    "answer", [PeerAnswer(status=500), PeerAnswer(body=b"<html>"), in_json({}), PeerAnswer(body=b" " * 2_000_000)]
)
def test_an_issuer_that_cannot_be_asked_lets_nobody_in(api: Api, issuer: Issuer, answer: PeerAnswer) -> None:
    issuer.server.answer(answer, path=issuer.keys_path)
    assert told(present(api, issuer.token())) == invalid("Bad ID token")
    openid_connect.clear_caches()
    issuer.server.answer(answer, path=issuer.discovery_path)
    said = present(api, issuer.token())
    assert (said.status_code, said.json()["error_code"]) == (500, "unexpected_failure")
    assert not User.objects.exists()


def test_an_issuer_that_hangs_is_given_up(api: Api, issuer: Issuer, auth_config: ChangeConfig) -> None:
    auth_config(api={"internal_http_timeout": timedelta(seconds=0.3)})
    issuer.server.answer(PeerAnswer(hang=True), path=issuer.keys_path)
    began = time.monotonic()
    assert told(present(api, issuer.token())) == invalid("Bad ID token")
    assert time.monotonic() - began < 3


def test_what_is_asked_of_an_issuer_has_one_measure_of_time(
    api: Api, issuer: Issuer, auth_config: ChangeConfig
) -> None:
    auth_config(api={"max_request_duration": timedelta(seconds=2)})
    issuer.delay = 0.8
    issuer.publish_discovery()
    issuer.server.answer(PeerAnswer(hang=True), path=issuer.keys_path)
    assert told(present(api, issuer.token())) == invalid("Bad ID token")


# --- whose tokens -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "issuer_name"),
    [
        ("google", "https://accounts.google.com"),
        ("facebook", "https://www.facebook.com"),
        ("snapchat", "https://accounts.snapchat.com/accounts/oauth2/token"),
        ("apple", "https://appleid.apple.com"),
        ("apple", "https://account.apple.com"),
        ("azure", TENANT),
    ],
)
@pytest.mark.parametrize("by_issuer", [False, True])
def test_a_provider_is_known_by_its_name_or_its_issuer(
    api: Api, well_known: Issuer, name: str, issuer_name: str, by_issuer: bool
) -> None:
    token = called(well_known, issuer_name).token(xms_edov=True)
    given = {"provider": None, "client_id": "whatever", "issuer": issuer_name} if by_issuer else {"provider": name}
    body = entered(present(api, token, **given))
    assert body["user"]["app_metadata"]["provider"] == name
    assert body["user"]["email"] == "ada@example.com"


@pytest.mark.parametrize(
    ("name", "issuer_name", "url"),
    [("kakao", "https://kauth.kakao.com", ""), ("azure", TENANT, ""), ("azure", TENANT, f"{MICROSOFT}/common")],
)
def test_an_address_that_an_issuer_does_not_vouch_for_joins_no_account(
    api: Api, well_known: Issuer, auth_config: ChangeConfig, mailbox: Mailbox, name: str, issuer_name: str, url: str
) -> None:
    auth_config(providers={"keycloak": Provider(), name: Provider(enabled=True, client_ids=("cid",), url=url)})
    victim = make_user(email="ada@example.com")
    answer = present(api, called(well_known, issuer_name).token(email_verified=None), provider=name)
    text = f"Unverified email with {name}. Verify the email with {name} in order to sign in"
    assert_error(answer, 422, "provider_email_needs_verification", text)
    assert [each.provider for each in victim.identities.all()] == ["email"]
    assert (mailbox.emails, Session.objects.count()) == ([], 0)


OWN = TENANT.removesuffix("/v2.0")
FOREIGN = f"{MICROSOFT}/72f988bf-86f1-41af-91ab-2d7cd011db47"


@pytest.mark.parametrize(
    ("url", "iss", "is_taken"),
    [
        (OWN, TENANT, True),
        (OWN, f"{TENANT}/", True),
        (OWN, f"https://sts.windows.net/{OWN.rpartition('/')[2]}/", True),
        (OWN, f"{FOREIGN}/v2.0", False),
        (OWN, f"https://sts.windows.net/{FOREIGN.rpartition('/')[2]}/", False),
        (OWN, "https://sts.windows.net/", False),
        (OWN, f"{OWN}/v2.0/x", False),
        (OWN, f"{MICROSOFT}/common/v2.0", False),
        ("https://login.microsoftonline.us/t", "https://login.microsoftonline.us/t/v2.0", True),
        ("https://login.microsoftonline.us/t", f"{MICROSOFT}/t/v2.0", False),
        ("https://login.microsoftonline.us/t", "https://sts.windows.net/t/", False),
        ("https://login.microsoftonline.us/t", "/", False),
        ("", f"{FOREIGN}/v2.0", True),
        (f"{MICROSOFT}/organizations", f"{FOREIGN}/v2.0", True),
    ],
)
def test_where_a_tenant_is_named_no_other_is_believed(
    api: Api, well_known: Issuer, auth_config: ChangeConfig, url: str, iss: str, is_taken: bool
) -> None:
    auth_config(providers={"azure": Provider(enabled=True, client_ids=("cid",), url=url)})
    answer = present(api, called(well_known, iss).token(xms_edov=True), provider="azure")
    if is_taken:
        assert entered(answer)["user"]["app_metadata"]["provider"] == "azure"
    else:
        assert_error(answer, *VALIDATION, NOT_AZURES)
        assert not User.objects.exists()


def test_vercel_says_things_in_its_own_words(api: Api, well_known: Issuer) -> None:
    words: dict[str, Any] = {"user_email": "ada@example.com", "global_user_id": "g1", "email": None}
    token = called(well_known, "https://marketplace.vercel.com").token(**words)
    body = entered(present(api, token, provider="vercel_marketplace"))
    assert body["user"]["identities"][0]["id"] == "global_user_id:g1"


def test_keycloak_is_known_by_its_realm(api: Api, issuer: Issuer) -> None:
    body = entered(present(api, issuer.token(), provider=None, client_id="x", issuer=issuer.name))
    assert body["user"]["app_metadata"]["provider"] == "keycloak"


def test_googles_second_spelling_is_taken(api: Api, well_known: Issuer) -> None:
    token = called(well_known, "https://accounts.google.com").token(iss="accounts.google.com", hd="example.com")
    body = entered(present(api, token, provider="google"))
    assert body["user"]["identities"][0]["identity_data"]["custom_claims"] == {"hd": "example.com"}


def test_apple_on_a_phone_is_another_audience(api: Api, well_known: Issuer) -> None:
    token = called(well_known, "https://appleid.apple.com").token(aud="com.example.app")
    entered(present(api, token, provider="apple"))
    answer = present(api, called(well_known, "https://accounts.google.com").token(aud="com.example.app"),
                     provider="google")  # fmt: skip
    assert told(answer) == invalid("Unacceptable audience in id_token: [com.example.app]")


def test_facebook_has_a_nonce_of_its_own(api: Api, well_known: Issuer) -> None:
    token = called(well_known, "https://www.facebook.com").token(nonce="its own", email_verified=None)
    entered(present(api, token, provider="facebook"))
    openid_connect.clear_caches()
    google = called(well_known, "https://accounts.google.com").token(nonce="its own")
    assert told(present(api, google, provider="google")) == ONE_SIDED


VALIDATION = (400, "validation_failed")
NOT_APPLES = "Detected ID token issuer is not an Apple ID token issuer"
NOT_AZURES = "Detected ID token issuer is not an Azure ID token issuer"


@pytest.mark.parametrize(
    ("given", "iss", "text"),
    [
        ({"provider": "apple"}, "https://id.example.com", NOT_APPLES),
        ({"provider": "apple"}, "https://appleid.apple.com.x", NOT_APPLES),
        ({"provider": "azure"}, "https://id.example.com", NOT_AZURES),
        ({"provider": "azure"}, "https://login.microsoftonline.com/../evil", NOT_AZURES),
        ({"provider": "azure"}, "https://login.microsoftonline.com/a?b=c", NOT_AZURES),
        ({"provider": "apple", "issuer": "https://account.apple.com"}, "https://appleid.apple.com",
         "Provided issuer does not match ID token issuer"),
        ({"provider": "azure", "issuer": TENANT}, "https://sts.windows.net/t/",
         "Provided issuer does not match ID token issuer"),
        ({"provider": "google", "issuer": "https://id.example.com"}, "https://accounts.google.com",
         "Provided issuer does not match ID token issuer"),
        ({"provider": "github"}, "https://id.example.com", 'Custom OIDC provider "github" not allowed'),
        ({"provider": "Google"}, "https://accounts.google.com", 'Custom OIDC provider "Google" not allowed'),
        ({"provider": None, "client_id": "cid", "issuer": "https://id.example.com"}, "https://id.example.com",
         'Custom OIDC provider "" not allowed'),
    ],
)  # fmt: skip
def test_a_token_of_another_issuer_is_refused(
    api: Api, well_known: Issuer, given: dict[str, Any], iss: str, text: str
) -> None:
    assert_error(present(api, called(well_known, iss).token(), **given), *VALIDATION, text)
    assert not User.objects.exists()


@pytest.mark.parametrize(("provider", "shown"), [("apple", "an Apple"), ("azure", "an Azure")])
def test_an_issuer_that_cannot_be_told_is_refused(api: Api, issuer: Issuer, provider: str, shown: str) -> None:
    text = f"Unable to detect issuer in ID token for {shown.removeprefix('an ')} provider"
    assert_error(present(api, "abc", provider=provider), *VALIDATION, text)


@pytest.mark.parametrize(
    ("provider", "issuer_name"),
    [
        ("google", "https://accounts.google.com"),
        ("facebook", "https://www.facebook.com"),
        ("kakao", "https://kauth.kakao.com"),
    ],
)
def test_a_provider_that_is_off_takes_none(
    api: Api, issuer: Issuer, auth_config: ChangeConfig, provider: str, issuer_name: str
) -> None:
    auth_config(providers={name: Provider(client_ids=("cid",)) for name in BUILT_IN})
    text = f'Provider (issuer "{issuer_name}") is not enabled'
    assert_error(present(api, "abc", provider=provider), 400, "provider_disabled", text)


def test_a_keycloak_without_an_address_is_off(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(providers={"keycloak": Provider(enabled=True, client_ids=("cid",))})
    assert_error(present(api, "abc"), 400, "provider_disabled", 'Provider (issuer "") is not enabled')


def test_a_listed_issuer_is_taken_for_the_audience_that_the_client_names(
    api: Api, issuer: Issuer, auth_config: ChangeConfig
) -> None:
    other = Issuer(issuer.server, path="/other", key=RSA)
    auth_config(federation={"id_token_issuers": (other.name,)})
    given: dict[str, Any] = {"provider": None, "issuer": other.name}
    body = entered(present(api, other.token(aud="app"), client_id="app", **given))
    assert body["user"]["app_metadata"]["provider"] == other.name
    answer = present(api, other.token(aud="app"), client_id="another", **given)
    assert told(answer) == invalid("Unacceptable audience in id_token: [app]")
    assert told(present(api, other.token(aud="app", **NONCE), client_id="app", **given)) == ONE_SIDED


# --- linking ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def signed_in(issuer: Issuer) -> SignIn:
    return make_session(make_user(email="bob@example.com"))


def test_an_identity_can_be_linked(api: Api, issuer: Issuer, signed_in: SignIn) -> None:
    body = entered(present(api, issuer.token(), bearer=signed_in.access_token, link_identity=True))
    assert (body["user"]["id"], body["user"]["email"]) == (str(signed_in.user.id), "bob@example.com")
    assert [each["provider"] for each in body["user"]["identities"]] == ["email", "keycloak"]
    assert body["user"]["app_metadata"]["providers"] == ["email", "keycloak"]
    assert Session.objects.filter(user=signed_in.user).count() == 2
    assert [action for action, _ in audit_trail()] == ["identity_linked"]

    again = entered(present(api, issuer.token()))
    assert again["user"]["id"] == str(signed_in.user.id)


def test_an_identity_belongs_to_one_user(api: Api, issuer: Issuer, signed_in: SignIn) -> None:
    entered(present(api, issuer.token()))
    answer = present(api, issuer.token(), bearer=signed_in.access_token, link_identity=True)
    assert_error(answer, 422, "identity_already_exists", "Identity is already linked to another user")


def test_a_visitor_who_links_is_none_any_more(api: Api, issuer: Issuer) -> None:
    visitor = make_session(make_user(email="", is_anonymous=True))
    body = entered(present(api, issuer.token(), bearer=visitor.access_token, link_identity=True))
    assert (body["user"]["id"], body["user"]["is_anonymous"]) == (str(visitor.user.id), False)


def test_whom_to_link_to_must_be_known(api: Api, issuer: Issuer, signed_in: SignIn) -> None:
    answer = present(api, issuer.token(), bearer="a.b.c", link_identity=True)
    assert (answer.status_code, answer.json()["error_code"]) == (403, "bad_jwt")
    User.objects.filter(id=signed_in.user.id).update(banned_until=timezone.now() + timedelta(hours=1))
    answer = present(api, issuer.token(), bearer=signed_in.access_token, link_identity=True)
    assert_error(answer, 403, "user_banned", "User is banned")
    Session.objects.all().delete()
    answer = present(api, issuer.token(), bearer=signed_in.access_token, link_identity=True)
    assert (answer.status_code, answer.json()["error_code"]) == (403, "session_not_found")
    assert issuer.server.received == []


def test_a_bearer_token_by_itself_links_nothing(api: Api, issuer: Issuer, signed_in: SignIn) -> None:
    body = entered(present(api, issuer.token(), bearer=signed_in.access_token))
    assert body["user"]["id"] != str(signed_in.user.id)


# --- accounts ---------------------------------------------------------------------------------------------------------


def test_a_banned_user_stays_outside(api: Api, issuer: Issuer) -> None:
    entered(present(api, issuer.token()))
    User.objects.update(banned_until=timezone.now() + timedelta(hours=1))
    before = table_contents()
    assert_error(present(api, issuer.token()), 403, "user_banned", "User is banned")
    assert table_contents() == before


def test_where_nobody_may_sign_up_an_unknown_person_stays_outside(
    api: Api, issuer: Issuer, auth_config: ChangeConfig
) -> None:
    auth_config(signup={"disabled": True})
    assert_error(present(api, issuer.token()), 422, "signup_disabled", "Signups not allowed for this instance")
    make_user(email="ada@example.com")
    entered(present(api, issuer.token()))


def test_what_fails_after_that_is_told_as_the_grant_tells_it(
    api: Api, issuer: Issuer, signed_in: SignIn, caplog: pytest.LogCaptureFixture
) -> None:
    before = table_contents()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE audit_log_entries RENAME TO away")
    try:
        answers = [
            present(api, issuer.token()),
            present(api, issuer.token(), bearer=signed_in.access_token, link_identity=True),
        ]
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE away RENAME TO audit_log_entries")
    assert [told(answer) for answer in answers] == [(400, "server_error", "Internal Server Error")] * 2
    assert caplog.messages.count("database error") == 2
    assert "ada@example.com" not in caplog.text
    assert table_contents() == before


def test_requests_are_limited(api: Api, issuer: Issuer, auth_config: ChangeConfig) -> None:
    auth_config(limits={"token_refresh": 0.0})
    statuses = [present(api, "abc").status_code for _ in range(31)]
    assert statuses == [400] * 30 + [429]
