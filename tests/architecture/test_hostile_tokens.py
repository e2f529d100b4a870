"""Hostile bearer tokens get documented error responses and write nothing to the database."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import jwt
import orjson
import pytest
from django.conf import settings
from django.utils import timezone

from tests.architecture.hostile_requests import BEARER, assert_documented, post
from tests.conftest import Api
from tests.factories import make_session
from tests.observations import table_contents
from tokens.models import Session

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_unhandled_exception")]


def _segment(content: Any) -> str:
    raw = content if isinstance(content, bytes) else orjson.dumps(content)
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(claims: Any, *, header: dict[str, Any] | None = None, secret: str | None = None) -> str:
    """A token with these claims, signed with the service's secret unless `secret` is passed."""
    parts = f"{_segment(header or {'alg': 'HS256', 'typ': 'JWT'})}.{_segment(claims)}"
    key = secret or settings.AUTH.jwt.secret.reveal()
    algorithm = jwt.get_algorithm_by_name("HS256")
    return f"{parts}.{_segment(algorithm.sign(parts.encode(), algorithm.prepare_key(key)))}"


NOW = int(timezone.now().timestamp())
OTHER_USER_ID = "11111111-2222-4333-8444-555555555555"
# Case → changed claims of a valid token, expected status and error code.
CLAIMS: dict[str, tuple[dict[str, Any], int, str]] = {
    "expired": ({"exp": NOW - 1}, 403, "bad_jwt"),
    "expired for ever": ({"exp": 0}, 403, "bad_jwt"),
    "negative expiry": ({"exp": -(2**62)}, 403, "bad_jwt"),
    "not yet valid": ({"nbf": NOW + 1_000_000}, 403, "bad_jwt"),
    "expiry is a word": ({"exp": "soon"}, 403, "bad_jwt"),
    "expiry is NaN": ({"exp": "NaN"}, 403, "bad_jwt"),
    "expiry is a list": ({"exp": [NOW + 60]}, 403, "bad_jwt"),
    "expiry is a flag": ({"exp": True}, 403, "bad_jwt"),
    "no subject": ({"sub": None}, 403, "bad_jwt"),
    "empty subject": ({"sub": ""}, 403, "bad_jwt"),
    "subject is a number": ({"sub": 7}, 403, "bad_jwt"),
    "subject is no UUID": ({"sub": "1 OR 1=1"}, 400, "bad_jwt"),
    "subject with a NUL": ({"sub": "\0" * 36}, 400, "bad_jwt"),
    "unknown subject": ({"sub": OTHER_USER_ID}, 403, "user_not_found"),
    "session is a number": ({"session_id": 7}, 403, "bad_jwt"),
    "session is no UUID": ({"session_id": "x"}, 403, "bad_jwt"),
    "unknown session": ({"session_id": OTHER_USER_ID}, 403, "session_not_found"),
    "audience is a number": ({"aud": 7}, 403, "bad_jwt"),
    "role is a list": ({"role": ["svc_admin"]}, 403, "bad_jwt"),
    "methods are a number": ({"amr": 7}, 403, "bad_jwt"),
    "method without a type": ({"amr": [{"method": 7}]}, 403, "bad_jwt"),
    "method of the year 9e18": ({"amr": [{"method": "otp", "timestamp": 2**62}]}, 403, "bad_jwt"),
    "metadata is a text": ({"user_metadata": "x"}, 403, "bad_jwt"),
    "anonymous is a text": ({"is_anonymous": "no"}, 403, "bad_jwt"),
}


def claims_of(token: str) -> dict[str, Any]:
    return dict(jwt.decode(token, options={"verify_signature": False}))


@pytest.mark.parametrize("name", CLAIMS)
def test_invalid_claims_are_rejected(name: str) -> None:
    change, status, error_code = CLAIMS[name]
    claims = claims_of(make_session().access_token) | change
    before = table_contents()
    for method, path in BEARER:
        error = assert_documented(Api().request(method, path, bearer=signed(claims)), status)
        assert error["error_code"] == error_code
    assert table_contents() == before


@pytest.mark.parametrize(("method", "path"), BEARER)
def test_token_with_session_of_another_user_is_rejected(method: str, path: str) -> None:
    mine, theirs = make_session(), make_session()
    claims = claims_of(mine.access_token) | {"session_id": str(theirs.session.id)}
    before = table_contents()
    error = assert_documented(Api().request(method, path, bearer=signed(claims)), 403)
    assert error["error_code"] == "session_not_found"
    assert table_contents() == before


def test_token_of_another_audience_is_rejected() -> None:
    token = make_session().access_token
    for claims, header in (
        (claims_of(token), "staff"),
        (claims_of(token) | {"aud": None}, ""),
        (claims_of(token) | {"aud": []}, ""),
        (claims_of(token) | {"aud": ["staff", "authenticated"]}, "authenticated"),
    ):
        headers = {"X-JWT-AUD": header} if header else {}
        error = assert_documented(Api().get("/user", bearer=signed(claims), headers=headers), 400)
        assert (error["error_code"], error["msg"]) == (
            "validation_failed", "Token audience doesn't match request audience",
        )  # fmt: skip


def _forgeries(token: str) -> dict[str, str]:
    """Case → an invalid variant of a valid token."""
    head, body, signature = token.split(".")
    claims = claims_of(token)
    none = {"alg": "none", "typ": "JWT"}
    return {
        "alg none": f"{_segment(none)}.{body}.",
        "alg none with a signature": f"{_segment(none)}.{body}.{signature}",
        "alg None": f"{_segment({'alg': 'None'})}.{body}.",
        "alg NONE": f"{_segment({'alg': 'NONE'})}.{body}.",
        "no alg": f"{_segment({'typ': 'JWT'})}.{body}.{signature}",
        "alg is a list": f"{_segment({'alg': ['HS256']})}.{body}.{signature}",
        "alg is a number": f"{_segment({'alg': 256})}.{body}.{signature}",
        "another algorithm": f"{_segment({'alg': 'HS512'})}.{body}.{signature}",
        "an asymmetric algorithm": f"{_segment({'alg': 'RS256'})}.{body}.{signature}",
        "no signature": f"{head}.{body}.",
        "half a signature": f"{head}.{body}.{signature[:20]}",
        "another signature": f"{head}.{body}.{_segment(bytes(32))}",
        "another secret": signed(claims, secret="x" * 40),
        "an empty secret": signed(claims, secret="\0"),
        "another user in it": f"{head}.{_segment(claims | {'sub': OTHER_USER_ID})}.{signature}",
        "unknown key": signed(claims, header={"alg": "HS256", "kid": "../../dev/null"}, secret="x" * 40),
        "own key in the header": signed(
            claims, header={"alg": "HS256", "jwk": {"kty": "oct", "k": "eA"}}, secret="x" * 9
        ),
        "critical extension": signed(claims, header={"alg": "HS256", "crit": ["exp"]}),
        "two segments": f"{head}.{body}",
        "four segments": f"{token}.x",
        "five empty segments": "....",
        "padding": f"{head}=.{body}.{signature}",
        "claims are a list": signed([claims]),
        "claims are a number": signed(7),
        "claims are not JSON": signed(b"{"),
        "claims are not UTF-8": signed(b'{"sub":"\xff"}'),
        "claims are deep": signed(b'{"x":' + b"[" * 20_000 + b"]" * 20_000 + b"}"),
        "claims beyond a double": signed(b'{"exp":1e400}'),
        "header is not JSON": f"{_segment(b'{')}.{body}.{signature}",
        "header is a list": f"{_segment(['HS256'])}.{body}.{signature}",
        "garbage": "x" * 20,
        "60 KB of garbage": "x" * 60_000,
        "60 KB of dots": "." * 60_000,
        "not ASCII": "\u00fc.\u00fc.\u00fc",
        "a refresh token": "ABEREREiIkMzhERVVVVVVVUAI-IcsaseXEKS7q68JAgmU-80L2M",
    }


@pytest.mark.parametrize("name", _forgeries(signed({"sub": OTHER_USER_ID})))
def test_forged_token_is_rejected(name: str) -> None:
    token = make_session().access_token
    before = table_contents()
    for method, path in BEARER:
        error = assert_documented(Api().request(method, path, bearer=_forgeries(token)[name]), 403)
        assert error["error_code"] == "bad_jwt"
        assert error["msg"].startswith("invalid JWT: unable to parse or verify signature, ")
    assert table_contents() == before


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Bearer a b", "Bearer  {}", "Basic {}", "{}", "Bearer {} ", "Bearer\t{}", "Bearer:{}"],
)
def test_malformed_authorization_header_is_rejected(header: str) -> None:
    token = make_session().access_token
    before = table_contents()
    for method, path in BEARER:
        error = assert_documented(Api().request(method, path, headers={"Authorization": header.format(token)}), 401)
        assert (error["error_code"], error["msg"]) == (
            "no_authorization",
            "This endpoint requires a valid Bearer token",
        )
    assert table_contents() == before


def test_token_in_query_or_body_is_ignored() -> None:
    token = make_session().access_token
    assert_documented(Api().get(f"/user?access_token={token}"), 401)
    assert_documented(post("/logout", {"access_token": token}), 401)
    assert Session.objects.count() == 1


@pytest.mark.parametrize(
    "scope", ["x", "%00", "GLOBAL", "global%20", "%ff", "x" * 9_000, "local%0d%0aSet-Cookie:%20a=b"]
)
def test_invalid_logout_scope_is_rejected(scope: str) -> None:
    token = make_session().access_token
    before = table_contents()
    error = assert_documented(post(f"/logout?scope={scope}", bearer=token, body=None), 400)
    assert error["msg"].startswith('Unsupported logout scope "')
    assert table_contents() == before


def test_valid_token_of_expired_session_is_rejected() -> None:
    made = make_session(at=timezone.now() - timedelta(hours=2))
    assert assert_documented(Api().get("/user", bearer=made.access_token), 403)["error_code"] == "bad_jwt"
