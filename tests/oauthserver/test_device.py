"""Sign-in on devices without a browser (RFC 8628): the request, the decision of the user, and polling."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import User
from authsvc import tasks
from authsvc.errors import ApiError, RequestRateExceeded
from oauthserver.clients.client_metadata import DEVICE_CODE
from oauthserver.device import decisions, user_codes
from oauthserver.errors import DeviceCodeNotFound, ReauthenticationRequired, SecondFactorRequired
from oauthserver.models import DeviceAuthorization, OAuthConsent
from tests.conftest import Api, ChangeConfig
from tests.factories import make_session
from tests.oauthserver.client_application import Application, post_form, register, request_token
from tests.oauthserver.device_requests import approve, decide, error_of, find, poll, rest, start, television
from tests.observations import audit_payloads
from tests.tokens.token_requests import read_claims
from tokens.models import Session
from tokens.sessions.errors import ImpersonationNotAllowed

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _pages(auth_config: ChangeConfig) -> None:
    auth_config(pages={"enabled": True})


def test_a_device_signs_in(api: Api) -> None:
    application, session = television(api, client_name="Television"), make_session()
    started = start(application)

    assert started["verification_uri"] == "https://auth.example.com/oauth/device"
    assert started["verification_uri_complete"] == f"{started['verification_uri']}?user_code={started['user_code']}"
    assert (started["expires_in"], started["interval"]) == (600, 5)
    assert error_of(poll(application, started)) == "authorization_pending"
    shown = find(started, session)
    assert (shown.user_code, shown.client.name, shown.scope) == (started["user_code"], "Television", "openid email")
    assert shown.required_action == ""
    decide(started, session)
    response = poll(application, started)

    tokens = response.json()
    assert response.status_code == 200, tokens
    assert tokens.keys() == {"access_token", "token_type", "expires_in", "refresh_token", "scope", "id_token"}
    claims = read_claims(tokens["access_token"])
    assert (claims["sub"], claims["client_id"]) == (str(session.user.id), application.client_id)
    assert [entry["method"] for entry in claims["amr"]] == ["oauth_provider/device_code"]
    assert read_claims(tokens["id_token"])["aud"] == application.client_id
    consent = OAuthConsent.objects.get()
    assert (consent.user_id, str(consent.client_id), consent.scopes) == (
        session.user.id, application.client_id, "openid email",
    )  # fmt: skip
    recorded = [(entry["action"], entry.get("traits")) for entry in audit_payloads()][-2:]
    client = {"client_id": application.client_id}
    assert recorded == [
        ("oauth_grant_approved", {**client, "scopes": "openid email"}),
        ("login", {**client, "provider_type": "oauth_provider_device_code"}),
    ]
    refreshed = request_token(application, grant_type="refresh_token", refresh_token=tokens["refresh_token"])
    assert refreshed.status_code == 200


def test_codes_are_stored_as_digests(api: Api) -> None:
    started = start(television(api))

    row = DeviceAuthorization.objects.values().get()

    texts = " ".join(str(value) for value in row.values())
    assert started["device_code"] not in texts
    assert user_codes.normalize(started["user_code"]) not in texts


def test_user_codes_are_typed_as_users_type(api: Api) -> None:
    started, session = start(television(api)), make_session()
    code = started["user_code"]
    assert len(code) == 9
    assert code[4] == "-"
    assert not set(code) & set("AEIOU0123456789")
    for typed in (code.lower(), code.replace("-", ""), f" {code[:4]} {code[5:]} "):
        assert find(started, session, user_code=typed).user_code == code
    for typed in ("", "-", code[:-1], f"{code}B", "BCDF-BCDÄ", "\0" * 8, "B" * 100_000):
        with pytest.raises(DeviceCodeNotFound):
            find(started, session, user_code=typed)


def test_a_denied_request_gives_nothing(api: Api) -> None:
    application, session = television(api), make_session()
    started = start(application)
    find(started, session)
    decide(started, session, approves=False)

    assert error_of(poll(application, started)) == "access_denied"
    assert not OAuthConsent.objects.exists()
    assert audit_payloads()[-1]["action"] == "oauth_grant_denied"
    with pytest.raises(DeviceCodeNotFound):
        decide(started, session)


def test_polling_too_often_slows_down(api: Api) -> None:
    application = television(api)
    started = start(application)

    responses = [error_of(poll(application, started)) for _ in range(3)]

    assert responses == ["authorization_pending", "slow_down", "slow_down"]
    assert DeviceAuthorization.objects.get().poll_interval == 15
    rest(seconds=10)
    assert error_of(poll(application, started)) == "slow_down"
    rest(seconds=21)
    assert error_of(poll(application, started)) == "authorization_pending"


def test_an_approval_counts_at_once(api: Api) -> None:
    application = television(api)
    started = start(application)
    poll(application, started)
    approve(started, make_session())
    assert poll(application, started).status_code == 200


def test_expired_codes(api: Api) -> None:
    application, session = television(api), make_session()
    started = start(application)
    find(started, session)
    past = timezone.now() - timedelta(seconds=1)
    DeviceAuthorization.objects.update(created_at=past - timedelta(minutes=10), expires_at=past)

    assert error_of(poll(application, started)) == "expired_token"
    for attempt in (lambda: find(started, session), lambda: decide(started, session)):
        with pytest.raises(DeviceCodeNotFound):
            attempt()
    tasks.clean_up()
    assert DeviceAuthorization.objects.exists()
    DeviceAuthorization.objects.update(created_at=past - timedelta(hours=2), expires_at=past - timedelta(hours=1))
    tasks.clean_up()
    assert not DeviceAuthorization.objects.exists()


def test_an_approval_expires_too(api: Api) -> None:
    application = television(api)
    started = start(application)
    approve(started, make_session())
    past = timezone.now() - timedelta(seconds=1)
    DeviceAuthorization.objects.update(created_at=past - timedelta(minutes=10), expires_at=past)
    assert error_of(poll(application, started)) == "expired_token"


def test_a_code_of_another_client_is_unknown(api: Api) -> None:
    application, other = television(api), television(api)
    started = start(application)
    approve(started, make_session())

    assert error_of(poll(other, started)) == "invalid_grant"
    assert error_of(poll(application, {"device_code": "x"})) == "invalid_grant"
    assert error_of(request_token(application, grant_type=DEVICE_CODE)) == "invalid_request"
    assert poll(application, started).status_code == 200


def test_a_repeated_exchange_ends_the_session(api: Api) -> None:
    application = television(api)
    started = start(application)
    approve(started, make_session())
    poll(application, started)
    assert Session.objects.filter(oauth_client_id=application.client_id).count() == 1

    assert error_of(poll(application, started)) == "invalid_grant"

    assert not Session.objects.filter(oauth_client_id=application.client_id).exists()


def test_only_the_user_who_has_found_a_request_decides(api: Api) -> None:
    started, session, other = start(television(api)), make_session(), make_session()
    with pytest.raises(DeviceCodeNotFound):
        decide(started, session)
    find(started, other)
    find(started, session)
    with pytest.raises(DeviceCodeNotFound):
        decide(started, other)
    decide(started, session)


def test_wrong_codes_are_limited(api: Api) -> None:
    started, session = start(television(api)), make_session()
    for _ in range(decisions.MAX_ATTEMPTS + 5):
        find(started, session)  # found codes do not count
    for _ in range(decisions.MAX_ATTEMPTS):
        with pytest.raises(DeviceCodeNotFound):
            find(started, session, user_code="BBBB-BBBB")
    with pytest.raises(RequestRateExceeded) as refused:
        find(started, session)
    assert refused.value.retry_after
    assert find(started, make_session()).scope == "openid email"


def test_codes_are_limited_per_client_address(api: Api) -> None:
    started = start(television(api))
    refused = 0
    for _ in range(5):
        session = make_session()
        for _ in range(8):
            try:
                find(started, session, user_code="BBBB-BBBB")
            except DeviceCodeNotFound:
                continue
            except RequestRateExceeded:
                refused += 1
    assert refused >= 5


def test_the_client_can_require_a_newer_sign_in_and_a_second_factor(api: Api) -> None:
    application = television(api)
    old = make_session(at=timezone.now() - timedelta(hours=1))
    recent = start(application, max_age="60")
    assert find(recent, old).required_action == "reauthenticate"
    with pytest.raises(ReauthenticationRequired):
        decide(recent, old)
    strong = start(application, acr_values="aal2")
    assert find(strong, old).required_action == "verify_second_factor"
    with pytest.raises(SecondFactorRequired):
        decide(strong, old)
    decide(strong, old, approves=False)


def test_an_impersonated_session_cannot_approve(api: Api) -> None:
    operator = make_session()
    session = make_session(impersonator_id=operator.user.id, impersonator_session_id=operator.session.id)
    started = start(television(api))
    for attempt in (lambda: find(started, session), lambda: decide(started, session)):
        with pytest.raises(ImpersonationNotAllowed):
            attempt()


@pytest.mark.parametrize(
    ("form", "error"),
    [
        ({"scope": "admin"}, "invalid_request"),
        ({"scope": " "}, "invalid_request"),
        ({"scope": "email " * 1000}, "server_error"),
        ({"resource": "https://api.example.com/#x"}, "invalid_request"),
        ({"resource": "api\0"}, "invalid_request"),
        ({"max_age": "-1"}, "invalid_request"),
        ({"acr_values": "\0"}, "server_error"),
    ],
)
def test_invalid_requests_store_nothing(form: dict[str, Any], error: str, api: Api) -> None:
    response = request_token(television(api), path="/oauth/device_authorization", **form)
    assert error_of(response) == error
    assert not DeviceAuthorization.objects.exists()


def test_clients_authenticate_as_they_are_registered(api: Api) -> None:
    path = "/oauth/device_authorization"
    confidential = television(api, token_endpoint_auth_method="client_secret_basic")
    assert start(confidential)["interval"] == 5
    wrong = request_token(Application(confidential.client_id, "x" * 43, confidential.method), path=path)
    assert (wrong.status_code, wrong.json()["error"]) == (400, "invalid_client")
    assert wrong.headers["WWW-Authenticate"] == 'Basic realm="oauth"'
    assert wrong.headers["Cache-Control"] == "no-store"
    assert error_of(request_token(register(api), path=path)) == "unauthorized_client"
    body = f'{{"client_id": "{television(api).client_id}", "scope": "profile"}}'
    assert post_form(body, content_type="application/json", path=path).status_code == 200
    assert set(DeviceAuthorization.objects.values_list("scope", flat=True)) == {"openid email", "profile"}
    assert post_form("{", content_type="application/json", path=path).status_code == 400


def test_users_who_may_not_sign_in_get_no_session(api: Api) -> None:
    application, session = television(api), make_session()
    started = start(application)
    approve(started, session)
    User.objects.filter(id=session.user.id).update(banned_until=timezone.now() + timedelta(hours=1))
    assert error_of(poll(application, started)) == "access_denied"
    User.objects.filter(id=session.user.id).update(banned_until=None)
    Session.objects.filter(id=session.session.id).delete()
    assert error_of(poll(application, started)) == "invalid_grant"
    assert not Session.objects.filter(oauth_client_id=application.client_id).exists()


def test_a_revoked_grant_and_a_deleted_client_end_open_requests(api: Api) -> None:
    application, session = television(api), make_session()
    approve(start(application), session)
    revoked = api.delete(f"/user/oauth/grants?client_id={application.client_id}", bearer=session.access_token)
    assert revoked.status_code == 204
    assert not DeviceAuthorization.objects.exists()


def test_the_endpoint_needs_the_page(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(pages={"enabled": False})
    assert "device_authorization_endpoint" not in api.get("/.well-known/openid-configuration").json()
    assert error_of(request_token(television(api), path="/oauth/device_authorization")) == "server_error"


def test_the_metadata_name_the_endpoint(api: Api) -> None:
    content = api.get("/.well-known/openid-configuration").json()
    assert content["device_authorization_endpoint"] == "https://auth.example.com/oauth/device_authorization"
    assert DEVICE_CODE in content["grant_types_supported"]


def test_errors_have_an_api_form() -> None:
    # The page turns them into messages.
    assert issubclass(DeviceCodeNotFound, ApiError)
    assert DeviceCodeNotFound.status == 404
