"""Django's settings, derived from the one configuration object `AUTH`, and the plug-in lists.

Nothing here or elsewhere reads the environment: `authsvc.core.config` does, once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from authsvc.core import config, logs, postgresql

AUTH = config.load()

BASE_DIR = Path(__file__).resolve().parent.parent

INSTALLED_APPS = [
    "authsvc",
    "authsvc.core.apps.CoreConfig",
    "procrastinate.contrib.django",
    "tokens",
    "accounts",
    "mailer",
    "rest_framework",
]
MIDDLEWARE = [
    "authsvc.core.web.cors.CorsMiddleware",
    "authsvc.core.web.middleware.RequestMiddleware",
]
ROOT_URLCONF = "authsvc.urls"
WSGI_APPLICATION = "authsvc.wsgi.application"

DATABASES = {"default": postgresql.settings_from(AUTH.database)}
AUTH_USER_MODEL = "accounts.User"
PASSWORD_HASHERS = ["accounts.hashers.Argon2id"]

SECRET_KEY = config.secret_key(AUTH)
DEBUG = False
ALLOWED_HOSTS = ["*"]  # links are made from API_EXTERNAL_URL, never from the Host header
APPEND_SLASH = False
USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = False
DATA_UPLOAD_MAX_MEMORY_SIZE = None  # the body limit of the service is checked where bodies are read
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
SILENCED_SYSTEM_CHECKS = [
    "models.E034",  # an index name of 30 characters is Oracle's limit; PostgreSQL's is 63
    # Cookies, frames and redirects to https: the API has none of them, and TLS ends at the proxy in front.
    *(f"security.W{number:03}" for number in (1, 2, 3, 4, 8, 12, 16, 18, 20)),
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "OPTIONS": {"context_processors": []},
    }
]
DEV_INBOX_FOLDER = Path(AUTH.mailer.dev_inbox_folder or BASE_DIR / ".data" / "inbox")

LOGGING_CONFIG = "logging.config.dictConfig"
LOGGING = logs.config(AUTH.logging)

REST_FRAMEWORK: dict[str, Any] = {
    "UNAUTHENTICATED_USER": None,
    "UNAUTHENTICATED_TOKEN": None,
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
}

# What lower apps ask of upper ones. Every entry satisfies the Protocol named beside it, which is checked at start.
SUBJECTS = "accounts.subjects.AccountSubjects"  # tokens.subjects.Subjects
TOKEN_GRANTS = {  # tokens.grants.Grant
    "password": "accounts.grants.PasswordGrant",
    "refresh_token": "tokens.grants.RefreshTokenGrant",
    "pkce": "tokens.grants.PkceGrant",
}
PHONE_VERIFIER = "mailer.sms.twilio_verify.Verifier"  # authsvc.core.messaging.PhoneVerifier
CAPTCHA_EXEMPTION = "tokens.admins.AdminExemption"  # authsvc.core.web.captcha.Exemption
