"""The library that verifies WebAuthn responses is optional; a server without passkeys and keys does not load it."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.live import servers
from tests.settings import ENVIRONMENT

LOAD_EVERYTHING = """
import importlib, pkgutil, sys
import django
django.setup()
import accounts, authsvc.console, authsvc.urls, mailer, oauthproviders, oauthserver, tokens
for package in (accounts, authsvc.console, mailer, oauthproviders, oauthserver, tokens):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_webauthn_library_is_not_loaded_while_disabled() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOAD_EVERYTHING],
        cwd=servers.PROJECT,
        env={
            "PATH": os.environ["PATH"],
            **ENVIRONMENT,
            "DATABASE_URL": "postgres://unknown@localhost/nothing",
            "DJANGO_SETTINGS_MODULE": "authsvc.settings",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    loaded = set(done.stdout.split())
    assert {"accounts", "oauthproviders", "segno"} <= loaded, done.stderr
    assert not {"webauthn", "cbor2", "asn1crypto", "OpenSSL"} & loaded
