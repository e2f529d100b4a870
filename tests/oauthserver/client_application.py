"""A client application: registers itself, starts authorizations and exchanges codes."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from django.test import Client

from accounts.users.queries import AccountUsers
from tests import openapi
from tests.accounts.administration import admin_requests
from tests.conftest import Api, ApiResponse, read_success
from tests.factories import CHALLENGE, VERIFIER, SignIn, make_session
from tokens.sessions.users import SignedInUser

ISSUER = "https://auth.example.com"
CALLBACK = "https://client.example.com/cb"


@dataclass(frozen=True)
class Application:
    """A registered client with its secret."""

    client_id: str
    secret: str = field(default="", repr=False)
    method: str = "none"

    @property
    def basic(self) -> dict[str, str]:
        credentials = base64.b64encode(f"{self.client_id}:{self.secret}".encode()).decode()
        return {"Authorization": f"Basic {credentials}"}


def register(api: Api, **metadata: Any) -> Application:
    """A client that an administrator registers; public unless `token_endpoint_auth_method` says otherwise."""
    body = {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none", **metadata}
    response = admin_requests.ask(api, "POST", "/admin/oauth/clients", body)
    assert response.status_code == 201, response.content
    client = response.json()
    return Application(client["client_id"], client.get("client_secret", ""), client["token_endpoint_auth_method"])


def authorize(api: Api, application: Application, *, method: str = "GET", **changes: Any) -> ApiResponse:
    """GET /oauth/authorize, or POST with a form; a parameter that is None is left out."""
    parameters = {
        "client_id": application.client_id,
        "redirect_uri": CALLBACK,
        "response_type": "code",
        "scope": "openid email",
        "state": "xyz",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        **changes,
    }
    present = {name: value for name, value in parameters.items() if value is not None}
    if method == "POST":
        return post_form(urlencode(present), path="/oauth/authorize")
    return api.get(f"/oauth/authorize?{urlencode(present, doseq=True)}")


def query_of(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query, keep_blank_values=True).items()}


def start(api: Api, application: Application, **changes: Any) -> str:
    """The id of a new authorization request."""
    response = authorize(api, application, **changes)
    assert response.status_code == 302, response.content
    return query_of(response.headers["Location"])["authorization_id"]


def show(api: Api, authorization_id: str, session: SignIn, **options: Any) -> ApiResponse:
    return api.get(f"/oauth/authorizations/{authorization_id}", bearer=session.access_token, **options)


def decide(api: Api, authorization_id: str, session: SignIn, action: str = "approve", **options: Any) -> ApiResponse:
    path = f"/oauth/authorizations/{authorization_id}/consent"
    return api.post(path, {"action": action}, bearer=session.access_token, **options)


def approve(api: Api, application: Application, session: SignIn, **changes: Any) -> str:
    """The code of a request that the user approves, by a decision now or before."""
    authorization_id = start(api, application, **changes)
    shown = show(api, authorization_id, session).json()
    if "redirect_url" not in shown:
        shown = decide(api, authorization_id, session).json()
    return query_of(shown["redirect_url"])["code"]


def request_token(
    application: Application, *, headers: dict[str, str] | None = None, path: str = "/oauth/token", **form: Any
) -> ApiResponse:
    """POST to the token endpoint, or another one, with the authentication method of the client."""
    parameters = {name: value for name, value in form.items() if value is not None}
    authentication: dict[str, str] = {}
    if application.method == "client_secret_basic":
        authentication = application.basic
    else:
        parameters = {"client_id": application.client_id, **parameters}
        if application.secret:
            parameters.setdefault("client_secret", application.secret)
    return post_form(urlencode(parameters, doseq=True), headers={**authentication, **(headers or {})}, path=path)


def introspect(application: Application, token: str, **changes: Any) -> ApiResponse:
    return request_token(application, path="/oauth/introspect", token=token, **changes)


def revoke(application: Application, token: str, **changes: Any) -> ApiResponse:
    return request_token(application, path="/oauth/revoke", token=token, **changes)


def post_form(
    body: str | bytes,
    *,
    headers: dict[str, str] | None = None,
    content_type: str = "application/x-www-form-urlencoded",
    path: str = "/oauth/token",
) -> ApiResponse:
    response: Any = Client().generic("POST", path, body, content_type=content_type, headers=headers or {})
    problems = openapi.find_problems(
        "POST", path, response.status_code, headers=response.headers, content=response.content
    )
    assert not problems, "\n".join(problems)
    return response  # type: ignore[no-any-return]


def exchange(application: Application, code: str, **changes: Any) -> ApiResponse:
    form = {"code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER, **changes}
    return request_token(application, grant_type="authorization_code", **form)


def refresh(application: Application, refresh_token: str, **changes: Any) -> ApiResponse:
    return request_token(application, grant_type="refresh_token", refresh_token=refresh_token, **changes)


def sign_in(api: Api, application: Application, session: SignIn | None = None, **changes: Any) -> dict[str, Any]:
    """The tokens of a client to which a user has granted access."""
    return read_success(exchange(application, approve(api, application, session or make_session(), **changes)))


def find_user(session: SignIn) -> SignedInUser:
    """The user of a session, as the pages see one."""
    found = AccountUsers().find_by_session(session.session.id)
    assert found is not None
    return found
