"""A server that the commands and programs of the documents call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from tests import ports
from tests.live import servers
from tests.live.documentation import pages
from tests.settings import ENVIRONMENT
from tokens.jwt import signing_keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """A server, and shell variables that give `manage.py` the same settings."""

    port: int
    variables: dict[str, str]
    signing_key: dict[str, Any]
    """The private JSON Web Key of access tokens."""

    @property
    def url(self) -> str:
        """The issuer of tokens, too."""
        return f"http://localhost:{self.port}"


@pytest.fixture(scope="package")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A server with the development inbox, the provider of the second tutorial, and an RS256 key."""
    folder = tmp_path_factory.mktemp("tutorial")
    [block] = pages.blocks(pages.FIRST_PROVIDER, "ini")
    port = ports.free_port()
    key = signing_keys.generate(algorithm="RS256")
    with servers.fresh_database() as url:
        env = {
            **dict(line.split("=", 1) for line in block.splitlines()),
            "WEB_CONCURRENCY": "1",
            "AUTH_MAILER_DEV_INBOX_ENABLED": "true",
            "AUTH_MAILER_DEV_INBOX_FOLDER": str(folder / "inbox"),
            "AUTH_API_EXTERNAL_URL": f"http://localhost:{port}",
            "AUTH_JWT_ISSUER": f"http://localhost:{port}",
            "AUTH_JWT_KEYS": orjson.dumps([key]).decode(),
        }
        with servers.LiveServer(folder=folder, database_url=url, env=env, port=port):
            variables = {**ENVIRONMENT, **env, "DATABASE_URL": url}
            yield Installation(port=port, variables=variables, signing_key=key)
