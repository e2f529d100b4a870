"""A Django site whose users sign in with django-allauth's OpenID Connect provider.

Writes {"open": URL} for the user's browser, reads the final URL, and writes {"result": …}: JSON, one value in a line.
ISSUER is the URL of the service; CLIENT is JSON with client_id and client_secret.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import django
from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.test import Client
from django.urls import include, path

CLIENT = json.loads(os.environ["CLIENT"])
settings.configure(
    ALLOWED_HOSTS=["shop.example.com"],
    AUTHENTICATION_BACKENDS=["allauth.account.auth_backends.AuthenticationBackend"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.messages",
        "django.contrib.sessions",
        "allauth",
        "allauth.account",
        "allauth.socialaccount",
        "allauth.socialaccount.providers.openid_connect",
    ],
    LOGIN_REDIRECT_URL="/welcome",
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
        "allauth.account.middleware.AccountMiddleware",
    ],
    ROOT_URLCONF=__name__,
    SECRET_KEY="only for tests",
    SOCIALACCOUNT_LOGIN_ON_GET=True,
    SOCIALACCOUNT_PROVIDERS={
        "openid_connect": {
            "OAUTH_PKCE_ENABLED": True,
            "APPS": [
                {
                    "provider_id": "authsvc",
                    "name": "authsvc",
                    "client_id": CLIENT["client_id"],
                    "secret": CLIENT["client_secret"],
                    "settings": {"server_url": os.environ["ISSUER"], "token_auth_method": "client_secret_basic"},
                }
            ],
        }
    },
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}],
)
django.setup()
urlpatterns = [path("", include("allauth.urls"))]


def main() -> None:
    call_command("migrate", verbosity=0)
    browser = Client(headers={"host": "shop.example.com"}, raise_request_exception=True)
    started = browser.get("/oidc/authsvc/login/", secure=True)
    sys.stdout.write(json.dumps({"open": started.headers["Location"]}) + "\n")
    sys.stdout.flush()
    final = sys.stdin.readline().strip()
    ended = browser.get(final.removeprefix("https://shop.example.com"), secure=True)
    accounts: Any = apps.get_app_config("socialaccount").get_model("SocialAccount")
    account = accounts.objects.get()
    result = {
        "location": ended.headers.get("Location"),
        "uid": account.uid,
        "email": account.user.email,
        "claims": sorted(account.extra_data["id_token"]),
    }
    sys.stdout.write(json.dumps({"result": result}) + "\n")


main()
