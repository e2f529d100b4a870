"""POST /token?grant_type=id_token: the ID token, sign-in and linking."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from accounts.models import Identity, User
from authsvc.conf import Provider
from authsvc.models import AuditLogEntry
from oauthproviders.oidc import openid_connect
from tests.conftest import Api, ChangeConfig, Mailbox, read_success
from tests.factories import SignIn, make_session, make_user
from tests.fakes.http_peer import HttpPeer, in_json
from tests.fakes.http_peer import Response as PeerResponse
from tests.fakes.issuer import Issuer, SigningKey, at_hash
from tests.oauthproviders.flow.id_token_requests import NONCE, ONE_SIDED, exchange, invalid, parse_error, use_issuer
from tests.observations import assert_error, audit_trail, table_contents
from tokens.models import AmrClaim, Session

pytestmark = pytest.mark.django_db


@pytest.fixture
def issuer_peer(peer: HttpPeer, auth_config: ChangeConfig) -> Issuer:
    """A Keycloak realm on loopback, whose responses can be delayed."""
    return use_issuer(peer, auth_config)


# Success


def test_a_new_user_gets_an_account_and_a_session(api: Api, issuer: Issuer) -> None:
    body = read_success(exchange(api, issuer.token()))

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
    identity_data = identity["identity_data"]
    assert {key: identity_data[key] for key in ("iss", "sub", "email", "email_verified", "phone_verified", "aud")} == {
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


def test_a_returning_user_gets_the_same_account(api: Api, issuer: Issuer) -> None:
    first = read_success(exchange(api, issuer.token()))
    second = read_success(exchange(api, issuer.token(name="Ada Lovelace")))
    assert second["user"]["id"] == first["user"]["id"]
    assert second["user"]["identities"][0]["identity_data"]["name"] == "Ada Lovelace"
    assert (User.objects.count(), Identity.objects.count(), Session.objects.count()) == (1, 1, 2)


def test_a_verified_address_matches_an_account(api: Api, issuer: Issuer) -> None:
    user = make_user(email="ada@example.com")
    body = read_success(exchange(api, issuer.token(email="ADA@example.com")))
    assert body["user"]["id"] == str(user.id)
    assert body["user"]["app_metadata"]["providers"] == ["email", "keycloak"]
    assert [identity["provider"] for identity in body["user"]["identities"]] == ["email", "keycloak"]


def test_subjects_that_differ_in_case_are_different_users(api: Api, issuer: Issuer) -> None:
    one = read_success(exchange(api, issuer.token(sub="ada", email="a@example.com")))
    other = read_success(exchange(api, issuer.token(sub="ADA", email="b@example.com")))
    assert one["user"]["id"] != other["user"]["id"]


def test_email_verified_may_be_a_text(api: Api, issuer: Issuer) -> None:
    assert read_success(exchange(api, issuer.token(email_verified="true")))["user"]["email_confirmed_at"]


@pytest.mark.parametrize("claim", [False, "false", "True", "1", 1, None])
def test_an_unverified_address_gets_a_confirmation_email(
    claim: object, api: Api, issuer: Issuer, mailbox: Mailbox
) -> None:
    response = exchange(api, issuer.token(email_verified=claim))
    text = "Unverified email with keycloak. A confirmation email has been sent to your keycloak email"
    assert_error(response, 422, "provider_email_needs_verification", text)
    assert [email.to for email in mailbox.emails] == ["ada@example.com"]
    assert (User.objects.count(), Session.objects.count()) == (1, 0)


def test_an_account_without_an_address_needs_verification(api: Api, issuer: Issuer, mailbox: Mailbox) -> None:
    response = exchange(api, issuer.token(email=None))
    text = "Unverified email with keycloak. Verify the email with keycloak in order to sign in"
    assert_error(response, 422, "provider_email_needs_verification", text)
    assert (User.objects.get().email, mailbox.emails, Session.objects.count()) == (None, [], 0)


def test_an_address_may_be_optional(api: Api, issuer: Issuer, auth_config: ChangeConfig) -> None:
    optional = Provider(enabled=True, client_ids=("cid",), url=issuer.name, email_optional=True)
    auth_config(providers={"keycloak": optional})
    assert read_success(exchange(api, issuer.token(email=None)))["user"]["email"] == ""


# Required parameters


@pytest.mark.parametrize(
    ("parameters", "description"),
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
def test_a_missing_parameter_is_an_error(
    api: Api, issuer: Issuer, parameters: dict[str, Any], description: str
) -> None:
    assert parse_error(exchange(api, **parameters)) == invalid(description)


@pytest.mark.parametrize("body", ['{"id_token": 7}', '{"id_token": "a", "link_identity": "yes"}', "[]", "{", '"a"'])
def test_a_malformed_body_is_an_error(api: Api, issuer: Issuer, body: str) -> None:
    response = api.post("/token?grant_type=id_token", body)
    assert (response.status_code, response.json()["error_code"]) == (400, "bad_json")


def test_no_captcha_is_required(api: Api, issuer: Issuer, auth_config: ChangeConfig) -> None:
    auth_config(captcha={"enabled": True})
    read_success(exchange(api, issuer.token()))


# The token


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
def test_an_invalid_token_is_an_error(api: Api, issuer: Issuer, changes: dict[str, Any]) -> None:
    before = table_contents()
    assert parse_error(exchange(api, issuer.token(**changes), access_token="t")) == invalid("Bad ID token")
    assert table_contents() == before


def test_the_log_contains_the_reason_but_not_the_token(
    api: Api, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    token = issuer.token(exp=int(time.time()) - 1)
    with caplog.at_level(logging.WARNING):
        exchange(api, token)
    (record,) = [record for record in caplog.records if getattr(record, "event", "") == "id_token.refused"]
    assert vars(record)["error"] == "the ID token has expired"
    assert token not in caplog.text


@pytest.mark.parametrize("sub", [None, ""])
def test_a_token_without_a_subject_is_an_error(api: Api, issuer: Issuer, sub: str | None) -> None:
    assert parse_error(exchange(api, issuer.token(sub=sub))) == invalid("Missing sub claim in id_token")


@pytest.mark.parametrize(
    ("aud", "text"),
    [("other", "other"), (["a", "b"], "a b"), ([], ""), (None, ""), ("CID", "CID"), ("com.example.app", None)],
)
def test_a_token_for_another_audience_is_an_error(api: Api, issuer: Issuer, aud: Any, text: str | None) -> None:
    audiences = aud if text is None else text
    response = exchange(api, issuer.token(aud=aud))
    assert parse_error(response) == invalid(f"Unacceptable audience in id_token: [{audiences}]")
    assert not User.objects.exists()


@pytest.mark.parametrize("aud", ["cid", "second", ["other", "second"]])
def test_every_client_id_is_an_accepted_audience(api: Api, issuer: Issuer, aud: Any) -> None:
    read_success(exchange(api, issuer.token(aud=aud)))


def test_the_access_token_must_match_at_hash(api: Api, issuer: Issuer) -> None:
    token = issuer.token(at_hash=at_hash("t"))
    read_success(exchange(api, token, access_token="t"))
    read_success(exchange(api, token))
    assert parse_error(exchange(api, token, access_token="u")) == invalid("Bad ID token")


@pytest.mark.parametrize(
    ("claims", "parameters", "error"),
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
def test_the_nonce_must_match(
    api: Api,
    issuer: Issuer,
    auth_config: ChangeConfig,
    claims: dict[str, Any],
    parameters: dict[str, Any],
    error: tuple[int, str, str] | None,
    is_skipped: bool,
) -> None:
    provider = Provider(enabled=True, client_ids=("cid",), url=issuer.name, skip_nonce_check=is_skipped)
    auth_config(providers={"keycloak": provider})
    response = exchange(api, issuer.token(**claims), **parameters)
    if error is None or is_skipped:
        read_success(response)
    else:
        assert parse_error(response) == error


@pytest.mark.parametrize(
    "document",
    [PeerResponse(status=500), PeerResponse(body=b"<html>"), in_json({}), PeerResponse(body=b" " * 2_000_000)],
)
def test_an_invalid_document_of_the_issuer_is_an_error(api: Api, issuer: Issuer, document: PeerResponse) -> None:
    issuer.server.respond(document, path=issuer.keys_path)
    assert parse_error(exchange(api, issuer.token())) == invalid("Bad ID token")
    openid_connect.clear_caches()
    issuer.server.respond(document, path=issuer.discovery_path)
    response = exchange(api, issuer.token())
    assert (response.status_code, response.json()["error_code"]) == (500, "unexpected_failure")
    assert not User.objects.exists()


def test_an_issuer_that_hangs_is_an_error(api: Api, issuer_peer: Issuer, auth_config: ChangeConfig) -> None:
    auth_config(api={"internal_http_timeout": timedelta(seconds=3)})
    issuer_peer.server.respond(PeerResponse(hang=True), path=issuer_peer.keys_path)
    began = time.monotonic()
    assert parse_error(exchange(api, issuer_peer.token())) == invalid("Bad ID token")
    assert time.monotonic() - began < 60


def test_calls_to_an_issuer_share_a_deadline(api: Api, issuer_peer: Issuer, auth_config: ChangeConfig) -> None:
    auth_config(api={"max_request_duration": timedelta(seconds=2)})
    issuer_peer.delay = 0.8
    issuer_peer.publish_discovery()
    issuer_peer.server.respond(PeerResponse(hang=True), path=issuer_peer.keys_path)
    assert parse_error(exchange(api, issuer_peer.token())) == invalid("Bad ID token")


# Linking


@pytest.fixture
def signed_in(issuer: Issuer) -> SignIn:
    return make_session(make_user(email="bob@example.com"))


def test_an_identity_is_linked(api: Api, issuer: Issuer, signed_in: SignIn) -> None:
    body = read_success(exchange(api, issuer.token(), bearer=signed_in.access_token, link_identity=True))
    assert (body["user"]["id"], body["user"]["email"]) == (str(signed_in.user.id), "bob@example.com")
    assert [identity["provider"] for identity in body["user"]["identities"]] == ["email", "keycloak"]
    assert body["user"]["app_metadata"]["providers"] == ["email", "keycloak"]
    assert Session.objects.filter(user=signed_in.user).count() == 2
    assert [action for action, _ in audit_trail()] == ["identity_linked"]

    again = read_success(exchange(api, issuer.token()))
    assert again["user"]["id"] == str(signed_in.user.id)


def test_an_identity_of_another_user_is_an_error(api: Api, issuer: Issuer, signed_in: SignIn) -> None:
    read_success(exchange(api, issuer.token()))
    response = exchange(api, issuer.token(), bearer=signed_in.access_token, link_identity=True)
    assert_error(response, 422, "identity_already_exists", "Identity is already linked to another user")


def test_linking_makes_an_anonymous_user_permanent(api: Api, issuer: Issuer) -> None:
    anonymous = make_session(make_user(email="", is_anonymous=True))
    body = read_success(exchange(api, issuer.token(), bearer=anonymous.access_token, link_identity=True))
    assert (body["user"]["id"], body["user"]["is_anonymous"]) == (str(anonymous.user.id), False)


def test_linking_requires_a_valid_session(api: Api, issuer: Issuer, signed_in: SignIn) -> None:
    response = exchange(api, issuer.token(), bearer="a.b.c", link_identity=True)
    assert (response.status_code, response.json()["error_code"]) == (403, "bad_jwt")
    User.objects.filter(id=signed_in.user.id).update(banned_until=timezone.now() + timedelta(hours=1))
    response = exchange(api, issuer.token(), bearer=signed_in.access_token, link_identity=True)
    assert_error(response, 403, "user_banned", "User is banned")
    Session.objects.all().delete()
    response = exchange(api, issuer.token(), bearer=signed_in.access_token, link_identity=True)
    assert (response.status_code, response.json()["error_code"]) == (403, "session_not_found")
    assert issuer.server.received == []


def test_a_bearer_token_without_link_identity_does_not_link(api: Api, issuer: Issuer, signed_in: SignIn) -> None:
    body = read_success(exchange(api, issuer.token(), bearer=signed_in.access_token))
    assert body["user"]["id"] != str(signed_in.user.id)


# Accounts


def test_a_banned_user_is_an_error(api: Api, issuer: Issuer) -> None:
    read_success(exchange(api, issuer.token()))
    User.objects.update(banned_until=timezone.now() + timedelta(hours=1))
    before = table_contents()
    assert_error(exchange(api, issuer.token()), 403, "user_banned", "User is banned")
    assert table_contents() == before
    refusal = AuditLogEntry.objects.get(payload__action="sign_in_refused")
    assert (refusal.payload or {})["actor_id"] == str(User.objects.get().id)


def test_with_sign_up_disabled_a_new_user_is_an_error(api: Api, issuer: Issuer, auth_config: ChangeConfig) -> None:
    auth_config(signup={"disabled": True})
    assert_error(exchange(api, issuer.token()), 422, "signup_disabled", "Signups not allowed for this instance")
    make_user(email="ada@example.com")
    read_success(exchange(api, issuer.token()))


def test_a_database_error_is_an_oauth_error(
    api: Api, issuer: Issuer, signed_in: SignIn, caplog: pytest.LogCaptureFixture
) -> None:
    before = table_contents()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE audit_log_entries RENAME TO away")
    try:
        returned = [
            exchange(api, issuer.token()),
            exchange(api, issuer.token(), bearer=signed_in.access_token, link_identity=True),
        ]
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE away RENAME TO audit_log_entries")
    assert [parse_error(response) for response in returned] == [(400, "server_error", "Internal Server Error")] * 2
    assert caplog.messages.count("database error") == 2
    assert "ada@example.com" not in caplog.text
    assert table_contents() == before


def test_requests_are_rate_limited(api: Api, issuer: Issuer, auth_config: ChangeConfig) -> None:
    auth_config(limits={"token_refresh": 0.0})
    statuses = [exchange(api, "abc").status_code for _ in range(31)]
    assert statuses == [400] * 30 + [429]
