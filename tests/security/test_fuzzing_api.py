"""Requests that Schemathesis derives from `/openapi.json`: a running server gives a documented response to each."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jwt
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.core.result import Ok
from schemathesis.core.transport import Response
from schemathesis.generation import GenerationMode
from schemathesis.generation.case import Case

from authsvc.api.openapi import views
from tests import openapi
from tests.live import servers, sign_ups
from tests.settings import ENVIRONMENT
from tests.timeouts import TIMEOUT_SECONDS

SCENARIOS = int(os.environ.get("FUZZING_EXAMPLES", "30"))
STEPS = 12
SPREAD = 17
REUSE = 6
"""Of ten values that a request may take from an earlier response, this many are."""
MEMBERS_OF_OBJECTS = {
    "user_id": "app_metadata",
    "factor_id": "factor_type",
    "identity_id": "identity_data",
    "identifier": "identifier",
    "passkey_id": "friendly_name",
    "challenge_id": "expires_at",
}
"""Parameter → a member that an object with its value as `id` or under its own name has."""
SETTINGS = {
    # The header is never sent, so no client has limits of requests.
    "AUTH_RATE_LIMIT_HEADER": "X-Never-Sent",
    "AUTH_API_MAX_REQUEST_DURATION": "10m",
    "AUTH_RATE_LIMIT_EMAIL_SENT": "1000000",
    "AUTH_RATE_LIMIT_SMS_SENT": "1000000",
    "AUTH_MAILER_AUTOCONFIRM": "true",
    "AUTH_SMS_AUTOCONFIRM": "true",
    "AUTH_EXTERNAL_PHONE_ENABLED": "true",
    "AUTH_EXTERNAL_ANONYMOUS_USERS_ENABLED": "true",
    "AUTH_SECURITY_MANUAL_LINKING_ENABLED": "true",
    "AUTH_EXTERNAL_GITHUB_ENABLED": "true",
    "AUTH_EXTERNAL_GITHUB_CLIENT_ID": "client",
    "AUTH_EXTERNAL_GITHUB_SECRET": "secret",
    "AUTH_EXTERNAL_GITHUB_REDIRECT_URI": "http://127.0.0.1/callback",
    "AUTH_MFA_RECOVERY_CODES_ENABLED": "true",
    "AUTH_MFA_PHONE_ENROLL_ENABLED": "true",
    "AUTH_MFA_PHONE_VERIFY_ENABLED": "true",
    "AUTH_MFA_WEB_AUTHN_ENROLL_ENABLED": "true",
    "AUTH_MFA_WEB_AUTHN_VERIFY_ENABLED": "true",
    "AUTH_PASSKEY_ENABLED": "true",
    "AUTH_WEBAUTHN_RP_ID": "localhost",
    "AUTH_WEBAUTHN_RP_ORIGINS": "http://localhost:3000",
    "AUTH_WEBAUTHN_RP_DISPLAY_NAME": "Fuzzing",
    "AUTH_API_DOCS_ENABLED": "true",
    "AUTH_LOG_LEVEL": "error",
}


@dataclass
class Scenario:
    """The requests of one scenario: they use the tokens, ids and addresses of earlier responses."""

    url: str
    service_token: str
    session: requests.Session = field(default_factory=requests.Session)
    user_token: str = ""
    known: dict[str, list[Any]] = field(default_factory=dict)
    """Parameter or member → values of earlier responses, the last one at the end."""
    statuses: set[int] = field(default_factory=set)

    def sign_up(self) -> None:
        email = f"fuzzing-{secrets.token_hex(8)}@example.com"
        body = {"email": email, "password": sign_ups.PASSWORD}
        made = self.session.post(f"{self.url}/signup", json=body, timeout=TIMEOUT_SECONDS).json()
        self.user_token = made["access_token"]
        self.known["password"] = [sign_ups.PASSWORD]
        self.remember(made)

    def send(self, case: Case[Any], choice: int) -> None:
        """Send one request; `choice` selects which values come from earlier responses."""
        for values in (case.path_parameters, case.query, case.body):
            if isinstance(values, dict):
                values |= {name: self.pick(name, choice, value) for name, value in values.items()}
        security = [name for entry in case.operation.definition.raw.get("security", []) for name in entry]
        token = self.service_token if "admin" in security else self.user_token
        response = case.call(
            base_url=self.url,
            session=self.session,
            headers={"Authorization": f"Bearer {token}"} if security else {},
            timeout=TIMEOUT_SECONDS,
            allow_redirects=False,
        )
        self.check(response, case)

    def pick(self, name: str, choice: int, value: Any) -> Any:
        known = self.known.get(name, [])
        return known[-1 - choice % len(known)] if known and choice < REUSE else value

    def check(self, response: Response, case: Case[Any]) -> None:
        request = response.request
        headers = {name.title(): values[0] for name, values in response.headers.items()}
        assert response.status_code < 500, f"{case.as_curl_command()}\nanswered {response.text}"
        problems = openapi.find_problems(
            str(request.method), str(request.url), response.status_code, headers=headers, content=response.content
        )
        assert not problems, "\n".join([*problems, case.as_curl_command()])
        self.statuses.add(response.status_code)
        if headers.get("X-Sb-Error-Code") in ("session_not_found", "user_not_found", "user_banned"):
            self.sign_up()
        elif response.status_code == 200 and headers.get("Content-Type") == "application/json":
            self.remember(response.json())

    def remember(self, value: Any) -> None:
        """Store the values of a response that later requests can use."""
        if isinstance(value, list):
            for inner in value[:5]:
                self.remember(inner)
        elif isinstance(value, dict):
            for parameter, member in MEMBERS_OF_OBJECTS.items():
                found = value.get(parameter, value.get("id"))
                if member in value and isinstance(found, str):
                    self.known.setdefault(parameter, []).append(found)
            for name in ("email", "phone", "refresh_token", "hashed_token", "email_otp"):
                if isinstance(value.get(name), str) and value[name]:
                    member = {"hashed_token": "token_hash", "email_otp": "token"}.get(name, name)
                    self.known.setdefault(member, []).append(value[name])
            for inner in value.values():
                self.remember(inner)


@cache
def strategies() -> list[st.SearchStrategy[Case[Any]]]:
    """Valid and invalid requests of each operation."""
    schema = schemathesis.openapi.from_path(views.FILE)
    schema.config.update(base_url="http://127.0.0.1")
    operations = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    modes = (GenerationMode.POSITIVE, GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    return [operation.as_strategy(generation_mode=mode) for operation in operations for mode in modes]


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[Case[Any], int]]:
    """Requests, each with a choice of the values that it reuses. No draw depends on a response."""
    chosen: list[tuple[Case[Any], int]] = []
    for step in range(STEPS):
        # Hypothesis draws small numbers more often; the step spreads them over all operations.
        number = (draw(st.integers(0, len(strategies()) - 1)) + step * SPREAD) % len(strategies())
        chosen.append((draw(strategies()[number]), draw(st.integers(0, 9))))
    return chosen


def run_scenarios(
    url: str, *, scenarios: int = SCENARIOS, derandomize: bool = "FUZZING_RANDOM" not in os.environ
) -> set[int]:
    """Run scenarios against the server at `url`; the statuses of all responses."""
    service_token = jwt.encode(
        {"role": "service_role", "aud": "authenticated", "exp": 2**33}, ENVIRONMENT["AUTH_JWT_SECRET"]
    )
    statuses: set[int] = set()

    @settings(
        max_examples=scenarios,
        derandomize=derandomize,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(steps())
    def run(steps: list[tuple[Case[Any], int]]) -> None:
        scenario = Scenario(url, service_token, statuses=statuses)
        with scenario.session:
            scenario.sign_up()
            for case, choice in steps:
                scenario.send(case, choice)

    run()
    return statuses


def test_every_response_to_a_derived_request_is_documented(serve: Callable[..., servers.LiveServer]) -> None:
    server = serve(**SETTINGS)
    statuses = run_scenarios(server.url)
    # The scenarios reach successes and refusals.
    assert {200, 204, 303, 400, 401, 403, 404, 422} <= statuses
    assert '"level":"error"' not in server.log.read_text()
