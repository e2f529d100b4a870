"""Django's settings, derived from the one configuration object `AUTH`.

Only `authsvc.conf` reads the environment.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.utils.functional import lazy

from authsvc import conf
from authsvc.console import static_files
from authsvc.db import postgresql
from authsvc.observability import logs

AUTH = conf.load()

BASE_DIR = Path(__file__).resolve().parent.parent

INSTALLED_APPS = [
    "authsvc.apps.AuthsvcConfig",
    "procrastinate.contrib.django",
    "tokens",
    "accounts",
    "oauthproviders",
    "oauthserver",
    "hooks",
    "mailer",
    "rest_framework",
    # The operator console; sessions are kept in signed cookies and in our own table, so their app is not needed.
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.messages",
    "authsvc.console.apps.ConsoleConfig",
]
MIDDLEWARE = [
    # Before all others, so that their responses are counted too.
    *(["authsvc.observability.django_metrics.measure_requests"] if AUTH.telemetry.metrics else []),
    "authsvc.api.middleware.CorsMiddleware",
    "authsvc.api.middleware.RequestMiddleware",
]
PROMETHEUS_LATENCY_BUCKETS = (  # seconds, for requests and for statements
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    float("inf"),
)
ROOT_URLCONF = "authsvc.urls"
WSGI_APPLICATION = "authsvc.wsgi.application"

DATABASES = postgresql.databases(AUTH.database, has_metrics=bool(AUTH.telemetry.metrics))
AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS: list[str] = []  # operators sign in with the services of `accounts`
PASSWORD_HASHERS = ["accounts.passwords.hashing.Argon2id"]

# Computed from the current configuration at each use, because a reload may change it.
SECRET_KEY = lazy(lambda: conf.secret_key(conf.current()), str)()
DEBUG = False
ALLOWED_HOSTS = ["*"]  # links are made from API_EXTERNAL_URL, never from the Host header
APPEND_SLASH = False
USE_TZ = True
TIME_ZONE = "UTC"
# The API, the console and the logs are in LANGUAGE_CODE; pages and messages are in a language of `authsvc.languages`.
USE_I18N = True
LANGUAGE_CODE = "en-us"
LANGUAGES = [("en-us", "English"), *((code, code) for code in conf.installed_languages(AUTH.languages))]
LOCALE_PATHS = [str(folder) for folder in conf.language_folders(AUTH.languages)]
FORMAT_MODULE_PATH = "authsvc.console.formats"
DATA_UPLOAD_MAX_MEMORY_SIZE = None  # the body limit of the service is checked where bodies are read
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
SILENCED_SYSTEM_CHECKS = [
    "models.E034",  # an index name of 30 characters is Oracle's limit; PostgreSQL's is 63
    "auth.W004",  # an address is unique among those who sign in with it
    *(f"admin.E{number}" for number in (408, 409, 410)),  # applied by `authsvc.console.view_policies`
    # Cookies, frames and redirects to https: the API has none of them, and TLS ends at the proxy in front.
    *(f"security.W{number:03}" for number in (1, 2, 3, 4, 8, 12, 16, 18, 20)),
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [*filter(None, [AUTH.pages.templates_folder]), BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

# Cookies are those of the operator console alone, and are never sent to the API.
STATIC_URL = static_files.URL
SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
SESSION_COOKIE_NAME = "operator_session"
SESSION_COOKIE_PATH = CSRF_COOKIE_PATH = "/operator/"
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Strict"
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = lazy(lambda: conf.is_https(conf.current()), bool)()
SESSION_COOKIE_AGE = 3600  # without a click; NIST SP 800-63B-4 §2.2.3
SESSION_SAVE_EVERY_REQUEST = True
SESSION_EXPIRE_AT_BROWSER_CLOSE = True
CSRF_COOKIE_NAME = "operator_csrf"
CSRF_COOKIE_AGE = None
CSRF_FAILURE_VIEW = "authsvc.console.pages.csrf_failure"
CSRF_TRUSTED_ORIGINS = lazy(lambda: conf.origins(conf.current()), list)()  # TLS ends at the proxy in front
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"
EMAIL_TIMEOUT = 60  # of Django's own SMTP back end, which would otherwise wait for ever and hold a worker
DEV_INBOX_FOLDER = Path(AUTH.mailer.dev_inbox_folder or BASE_DIR / ".data" / "inbox")

LOGGING_CONFIG = "logging.config.dictConfig"
LOGGING = logs.build_config(AUTH.logging, telemetry_debug=AUTH.telemetry.debug)

REST_FRAMEWORK: dict[str, Any] = {
    "UNAUTHENTICATED_USER": None,
    "UNAUTHENTICATED_TOKEN": None,
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
    "DEFAULT_THROTTLE_CLASSES": ["authsvc.api.throttling.TokenBucketThrottle"],
    "DEFAULT_PARSER_CLASSES": ["authsvc.api.parsing.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["authsvc.api.renderers.JSONRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "authsvc.api.renderers.FixedNegotiation",
    "DEFAULT_METADATA_CLASS": None,
    "EXCEPTION_HANDLER": "authsvc.api.exception_handler.handle",
    "FORMAT_SUFFIX_KWARG": None,
}
