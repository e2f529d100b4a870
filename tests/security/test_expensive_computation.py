"""Attack: requests that take seconds of CPU: attestations, QR codes, password hashes, numbers, headers."""

from __future__ import annotations

import hashlib
import io
import re
import time
from collections.abc import Callable
from typing import Any

import argon2
import bcrypt
import pytest
import webauthn
from django.test import RequestFactory

from accounts.models import User
from accounts.sign_up.views import SignUpInput
from authsvc.api import parsing
from authsvc.api.parsing import Utf8Request
from authsvc.api.renderers import FixedNegotiation
from authsvc.api.views import ServiceRequest
from authsvc.caller import resolve_address
from tests.accounts.administration.admin_requests import token as admin_token
from tests.accounts.mfa import factor_requests
from tests.accounts.passkeys import passkey_requests
from tests.conftest import Api, ChangeConfig
from tests.factories import make_session, make_user
from tests.fakes.authenticator import Authenticator

pytestmark = pytest.mark.django_db


def parts(number: int) -> list[dict[str, Any]]:
    return [{"fmt": "none", "attStmt": {}}] * number


def time_of(function: Callable[[], object]) -> float:
    """The CPU time in seconds."""
    began = time.process_time()
    function()
    return time.process_time() - began


@pytest.mark.parametrize(
    ("fmt", "statement"),
    [
        ("compound", parts(5)),
        ("compound", parts(1_000)),
        ("compound", parts(30_000)),
        ("packed", {"alg": -7, "sig": b"x", "x5c": [b"x" * 40_000]}),
        ("packed", {"alg": -7, "sig": b"x" * 40_000}),
        ("none", {f"{number}": number for number in range(8_000)}),
    ],
)
def test_large_attestation_is_refused_without_verification(
    api: Api, monkeypatch: pytest.MonkeyPatch, auth_config: ChangeConfig, fmt: str, statement: Any
) -> None:
    verified: list[object] = []
    monkeypatch.setattr(webauthn, "verify_registration_response", lambda **_: verified.append(1))
    auth_config(passkeys={"enabled": True}, webauthn=passkey_requests.PARTY)
    response = passkey_requests.register(
        api, make_session().access_token, Authenticator(), fmt=fmt, statement=statement
    )
    assert response.status_code in (400, 413)
    assert verified == []


@pytest.mark.parametrize("fmt", ["none", "packed", "compound"])
def test_usual_attestation_is_verified(api: Api, auth_config: ChangeConfig, fmt: str) -> None:
    auth_config(passkeys={"enabled": True}, webauthn=passkey_requests.PARTY)
    assert passkey_requests.register(api, make_session().access_token, Authenticator(), fmt=fmt).status_code == 200


@pytest.mark.parametrize("issuer", ["x" * 129, "x" * 590, "\u20ac" * 128, "x" * 100_000])
def test_long_issuer_is_refused(api: Api, issuer: str) -> None:
    response = factor_requests.enroll(api, make_session().access_token, issuer=issuer)
    assert response.status_code == 400
    assert response.json()["msg"] == "The issuer is too long"


def test_qr_code_has_a_bounded_size(api: Api) -> None:
    signed_in = make_session(make_user(email=f"{'x' * 200}@example.com"))
    response = factor_requests.enroll(api, signed_in.access_token, issuer="\u20ac" * 40)
    assert response.status_code == 200
    side = re.search(r'viewBox="0 0 (\d+)', response.json()["totp"]["qr_code"])
    assert side is not None
    assert int(side[1]) <= 4 * 25 + 17 + 8  # version 25 of 40


EXPENSIVE = (
    f"$2b$15${'a' * 53}",
    f"$2y$31${'a' * 53}",
    "$argon2id$v=19$m=1048576,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA",
    "$argon2id$v=19$m=262144,t=20,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA",
    "$argon2i$v=19$m=65536,t=20,p=16$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA",
    "$fbscrypt$v=1,n=14,r=8,p=255,ss=Bw==,sk=YQ==$YQ==$YQ==",
)


@pytest.mark.parametrize("stored", EXPENSIVE)
def test_expensive_hash_is_refused_and_never_computed(api: Api, monkeypatch: pytest.MonkeyPatch, stored: str) -> None:
    new = {"email": "new@example.com", "password_hash": stored, "email_confirm": True}
    assert api.post("/admin/users", new, bearer=admin_token()).status_code == 400
    # A row from before the limits, or written past the service.
    make_user(email="old@example.com", password_hash=stored)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the hash is computed")

    def verify(_hasher: object, encoded: str, password: str) -> Any:
        if encoded == stored:
            raise AssertionError("the hash is computed")
        return original(_hasher, encoded, password)  # the hash that a refusal is compared with

    original: Any = argon2.PasswordHasher.verify
    monkeypatch.setattr(bcrypt, "checkpw", refuse)
    monkeypatch.setattr(hashlib, "scrypt", refuse)
    monkeypatch.setattr(argon2.PasswordHasher, "verify", verify)
    response = api.post("/token?grant_type=password", {"email": "old@example.com", "password": "test"})
    assert (response.status_code, response.json()["error_code"]) == (400, "invalid_credentials")


@pytest.mark.parametrize(
    "stored",
    [
        "$2a$04$abcdefghijklmnopqrstuuZ0Y1Z3n5n5n5n5n5n5n5n5n5n5n5n5n",
        "$2b$14$abcdefghijklmnopqrstuuZ0Y1Z3n5n5n5n5n5n5n5n5n5n5n5n5n",
        "$argon2id$v=19$m=65536,t=4,p=4$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA",
        "$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=YQ==$YQ==$YQ==",
    ],
)
def test_usual_hash_is_imported(api: Api, stored: str) -> None:
    new = {"email": "new@example.com", "password_hash": stored, "email_confirm": True}
    assert api.post("/admin/users", new, bearer=admin_token()).status_code == 200
    assert User.objects.filter(email="new@example.com").exists()


@pytest.mark.parametrize("number", ["9e307", "1.7976931348623157e308", "5e-324"])
def test_numbers_take_no_longer_than_other_values(number: str) -> None:
    body = b'{"data": {"numbers": [%s]}}' % b",".join([number.encode()] * 40_000)
    request = ServiceRequest(
        RequestFactory().generic("POST", "/", body),
        parsers=[parsing.StrictJSONParser()],
        negotiator=FixedNegotiation(),
    )
    assert time_of(lambda: parsing.parse_body(request, SignUpInput)) < 0.25
    assert parsing.parse_body(request, SignUpInput).data == {"numbers": [float(number)] * 40_000}


def test_only_the_beginning_of_a_content_type_is_read() -> None:
    request = Utf8Request(
        {**RequestFactory().get("/").META, "wsgi.input": io.BytesIO(), "CONTENT_TYPE": "text/plain" + ";a=b" * 10_000}
    )
    assert request.content_type == "text/plain"
    assert time_of(lambda: request._set_content_type_params(request.META)) < 0.01


def test_only_the_last_forwarded_addresses_are_read() -> None:
    addresses = [f"10.0.{number // 256}.{number % 256}" for number in range(10_000)]
    header = ", ".join(["192.0.2.1", *addresses])
    assert resolve_address(peer="127.0.0.1", forwarded_for=header, svc_forwarded_for=None) == addresses[-100]
