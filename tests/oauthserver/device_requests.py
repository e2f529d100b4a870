"""Requests of devices without a browser, and the decisions of their users."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import F
from django.utils import timezone

from authsvc.caller import Caller
from oauthserver.clients.client_metadata import DEVICE_CODE
from oauthserver.device import decisions
from oauthserver.models import DeviceAuthorization
from tests.conftest import Api, read_success
from tests.factories import SignIn
from tests.oauthserver.client_application import Application, find_user, register, request_token

CALLER = Caller(address="192.0.2.1", client="192.0.2.1")


def television(api: Api, **metadata: Any) -> Application:
    return register(api, **{"grant_types": [DEVICE_CODE, "refresh_token"], **metadata})


def start(application: Application, **form: Any) -> dict[str, Any]:
    return read_success(
        request_token(application, path="/oauth/device_authorization", **{"scope": "openid email", **form})
    )


def poll(application: Application, started: dict[str, Any], **form: Any) -> Any:
    return request_token(application, **{"grant_type": DEVICE_CODE, "device_code": started["device_code"], **form})


def find(started: dict[str, Any], session: SignIn, **changes: Any) -> decisions.DeviceRequest:
    code = changes.get("user_code", started["user_code"])
    return decisions.find(code, signed_in=find_user(session), caller=CALLER, at=timezone.now())


def decide(started: dict[str, Any], session: SignIn, *, approves: bool = True) -> None:
    decisions.decide(
        started["user_code"], approves=approves, signed_in=find_user(session), caller=CALLER, at=timezone.now()
    )


def approve(started: dict[str, Any], session: SignIn) -> None:
    find(started, session)
    decide(started, session)


def rest(*, seconds: float = 6) -> None:
    """Let the polling interval of all requests pass."""
    DeviceAuthorization.objects.update(polled_at=F("polled_at") - timedelta(seconds=seconds))


def error_of(response: Any) -> str:
    assert response.status_code == 400, response.content
    assert response.json().keys() == {"error", "error_description"}
    return str(response.json()["error"])
