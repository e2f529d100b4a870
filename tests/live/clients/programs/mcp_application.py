"""An MCP client and the MCP server that it calls, which accepts access tokens of the service.

The client knows the URL of the MCP server only: it finds the service by the metadata of the protected resource (RFC
9728), registers itself, and signs the user in.

Writes {"open": URL} for the user's browser, reads the final URL, and writes {"result": …}: JSON, one value in a line.
ISSUER is the URL of the service.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import jwt
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

ISSUER = os.environ["ISSUER"]
RESOURCE = "http://127.0.0.1:8400/mcp"
CALLBACK = "http://127.0.0.1:8401/callback"


class Verifier:
    """Verifies access tokens by the published keys of the service; only those for this resource."""

    keys = jwt.PyJWKClient(f"{ISSUER}/.well-known/jwks.json")

    async def verify_token(self, token: str) -> AccessToken | None:
        try:
            key = await asyncio.to_thread(self.keys.get_signing_key_from_jwt, token)
            claims = jwt.decode(token, key, algorithms=["RS256"], audience=RESOURCE, issuer=ISSUER)
        except jwt.PyJWTError:
            return None
        return AccessToken(
            token=token,
            client_id=claims["client_id"],
            scopes=claims["scope"].split(),
            expires_at=claims["exp"],
            resource=RESOURCE,
            subject=claims["sub"],
        )


class Storage:
    """Keeps the tokens and the registration of the client in memory."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def build_server() -> MCPServer:
    # As text, because an instance of AnyHttpUrl has a slash at its end, and issuers are compared exactly.
    settings = AuthSettings.model_validate(
        {
            "issuer_url": ISSUER,
            "resource_server_url": RESOURCE,
            "required_scopes": ["email"],
            "validate_token_resource": True,
        }
    )
    server = MCPServer("notes", log_level="WARNING", token_verifier=Verifier(), auth=settings)

    @server.tool()
    def user() -> str:
        """The user of the access token."""
        token = get_access_token()
        return str(token.subject) if token else ""

    return server


async def open_browser(url: str) -> None:
    sys.stdout.write(json.dumps({"open": url}) + "\n")
    sys.stdout.flush()


async def read_callback() -> AuthorizationCodeResult:
    final = (await asyncio.to_thread(sys.stdin.readline)).strip()
    query = {name: values[0] for name, values in parse_qs(urlsplit(final).query).items()}
    return AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))


async def main() -> None:
    server, storage = build_server(), Storage()
    app: Any = server.streamable_http_app(json_response=True, stateless_http=True)
    metadata = OAuthClientMetadata(
        client_name="Editor", redirect_uris=[AnyUrl(CALLBACK)], token_endpoint_auth_method="none"
    )
    provider = OAuthClientProvider(
        server_url=RESOURCE,
        client_metadata=metadata,
        storage=storage,
        redirect_handler=open_browser,
        callback_handler=read_callback,
    )
    mounts = {"http://127.0.0.1:8400": httpx2.ASGITransport(app)}
    async with (
        server.session_manager.run(),
        httpx2.AsyncClient(auth=provider, mounts=mounts, timeout=30) as http,
        Client(streamable_http_client(RESOURCE, http_client=http)) as client,
    ):
        response = await client.call_tool("user", {})
    assert storage.tokens is not None
    assert storage.client is not None
    result = {
        "user": " ".join(part.text for part in response.content if part.type == "text"),
        "scope": storage.tokens.scope,
        "client_id": storage.client.client_id,
    }
    sys.stdout.write(json.dumps({"result": result}) + "\n")


asyncio.run(main())
