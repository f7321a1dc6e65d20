"""Django's settings, made from the environment; the table of settings is in environment.py."""

import secrets
from pathlib import Path
from urllib.parse import urlsplit

from insight.unfold import UNFOLD  # noqa: F401 - the admin's theme reads it here
from reach_platform import environment, health_settings
from reach_platform.database_url import broker_url, django_database
from reach_platform.embedded.place import Place, PlaceError

BASE_DIR = Path(__file__).resolve().parent.parent
VALUES = environment.load_or_exit()

REACH_DATA_DIR = Path(VALUES["REACH_DATA_DIR"]).absolute()
try:
    PLACE = Place.of(REACH_DATA_DIR)
    SECRET_KEY = VALUES["REACH_SECRET_KEY"] or PLACE.kept_secret("secret.key", lambda: secrets.token_urlsafe(48))
except PlaceError as error:
    raise SystemExit(str(error)) from None

REACH_HOST: str = VALUES["REACH_HOST"]
REACH_PORT: int = VALUES["REACH_PORT"]
REACH_LOG_LEVEL: str = VALUES["REACH_LOG_LEVEL"]
REACH_WORKERS: int = VALUES["REACH_WORKERS"]
REACH_ENGINE_ROOM: int = VALUES["REACH_ENGINE_ROOM"]
REACH_WEB_WORKERS: int = VALUES["REACH_WEB_WORKERS"]
REACH_WEB_THREADS: int = VALUES["REACH_WEB_THREADS"]
REACH_UPLOAD_TIMEOUT: int = VALUES["REACH_UPLOAD_TIMEOUT"]
REACH_DRAIN_SECONDS: int = VALUES["REACH_DRAIN_SECONDS"]
REACH_MAX_BODY_BYTES: int = VALUES["REACH_MAX_BODY_BYTES"]
REACH_MAX_BATCH_BYTES: int = VALUES["REACH_MAX_BATCH_BYTES"]
REACH_MAX_ANSWER_BYTES: int = VALUES["REACH_MAX_ANSWER_BYTES"]
REACH_STREAM_IDLE_MS: int = VALUES["REACH_STREAM_IDLE_MS"]
REACH_RESULTS_KEPT: int = VALUES["REACH_RESULTS_KEPT"]
REACH_RETENTION_DAYS: int = VALUES["REACH_RETENTION_DAYS"]
REACH_ROUTER_STRATEGY: str = VALUES["REACH_ROUTER_STRATEGY"]
REACH_ALERT_QUEUE_AGE_S: int = VALUES["REACH_ALERT_QUEUE_AGE_S"]
REACH_ALERT_SUCCESS: float = VALUES["REACH_ALERT_SUCCESS"]
REACH_ALERT_LATENCY_RATIO: float = VALUES["REACH_ALERT_LATENCY_RATIO"]
REACH_ROUTE_CACHE_MS: int = VALUES["REACH_ROUTE_CACHE_MS"]
REACH_ZONES: frozenset[str] = frozenset(VALUES["REACH_ZONES"])
REACH_PROBE_INTERVAL: int = VALUES["REACH_PROBE_INTERVAL"]
REACH_PROBE_CONCURRENCY: int = VALUES["REACH_PROBE_CONCURRENCY"]
REACH_REDIS_PREFIX: str = VALUES["REACH_REDIS_PREFIX"]
REACH_VISIBILITY_TIMEOUT: int = VALUES["REACH_VISIBILITY_TIMEOUT"]
REACH_PROBE_COMMANDS: dict[str, list[str]] = VALUES["REACH_PROBE_COMMANDS"]
REACH_HOOK_COMMANDS: dict[str, list[str]] = VALUES["REACH_HOOK_COMMANDS"]
REACH_FUNCTIONS: dict[str, str] = VALUES["REACH_FUNCTIONS"]
REACH_HEALTH: dict[str, float] = health_settings.figures(VALUES)

EMBEDDED_POSTGRES: bool = VALUES["DATABASE_URL"] is None
EMBEDDED_REDIS: bool = VALUES["REDIS_URL"] is None
DATABASE_URL: str = VALUES["DATABASE_URL"] or PLACE.database_url
REDIS_URL: str = VALUES["REDIS_URL"] or PLACE.redis_url
REACH_PUBLIC_URL: str = VALUES["REACH_PUBLIC_URL"] or f"http://{REACH_HOST}:{REACH_PORT}"
REACH_OUTBOUND_ALLOW: list[str] = VALUES["REACH_OUTBOUND_ALLOW"]
if REACH_OUTBOUND_ALLOW is None:
    REACH_OUTBOUND_ALLOW = ["127.0.0.0/8", "::1/128"] if EMBEDDED_POSTGRES or EMBEDDED_REDIS else []

DEBUG = VALUES["REACH_DEBUG"]
ALLOWED_HOSTS = [*VALUES["REACH_ALLOWED_HOSTS"], urlsplit(REACH_PUBLIC_URL).hostname]
CSRF_TRUSTED_ORIGINS = [REACH_PUBLIC_URL]
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = REACH_PUBLIC_URL.startswith("https://")
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"

INSTALLED_APPS = [
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_celery_beat",
    "registry",
    "routing",
    "callbacks",
    "insight",
    "reach_platform",
]

MIDDLEWARE = [
    "reach_platform.middleware.TraceId",
    "reach_platform.middleware.SecurityHeaders",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "reach_platform.page_middleware.PageSession",
    "reach_platform.page_middleware.PageLanguage",
    "django.middleware.common.CommonMiddleware",
    "reach_platform.page_middleware.PageForms",
    "reach_platform.page_middleware.PageUser",
    "reach_platform.page_middleware.PageMessages",
    "reach_platform.page_middleware.PageFrames",
]

ROOT_URLCONF = "reach_platform.urls"
WSGI_APPLICATION = "reach_platform.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.i18n",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASES = {"default": django_database(DATABASE_URL)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "/static/"
STATIC_ROOT = REACH_DATA_DIR / "static"
STATICFILES_DIRS = [path for path in (BASE_DIR / "static",) if path.is_dir()]
# Files are served from their packages until `make up` has collected them.
WHITENOISE_USE_FINDERS = not STATIC_ROOT.is_dir()

SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = REACH_MAX_BATCH_BYTES

REST_FRAMEWORK = {
    "EXCEPTION_HANDLER": "common.errors.exception_handler",
    "DEFAULT_AUTHENTICATION_CLASSES": ["registry.authentication.CredentialAuthentication"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "common.negotiation.Negotiation",
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "UNAUTHENTICATED_USER": None,
    # ?format= is the views' own: csv, openai-tools, mcp
    "URL_FORMAT_OVERRIDE": None,
}

SPECTACULAR_SETTINGS = {
    "TITLE": "Agent-Reach",
    "DESCRIPTION": "The switchboard between callers and AI agents.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_AUTHENTICATION": [],
    "SERVE_PERMISSIONS": [],
    "SCHEMA_PATH_PREFIX": "/v1",
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
}

CELERY_BROKER_URL = broker_url(REDIS_URL)
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "global_keyprefix": f"{REACH_REDIS_PREFIX}:",
    "visibility_timeout": REACH_VISIBILITY_TIMEOUT,
    # A dead or paused Redis costs a caller this long at the most.
    "socket_timeout": 5.0,
    "socket_connect_timeout": 2.0,
    "socket_keepalive": True,
    "retry_on_timeout": False,
}
CELERY_BROKER_CONNECTION_TIMEOUT = 2.0
CELERY_BROKER_CONNECTION_RETRY = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
# A nudge that cannot be published is dropped: the poll of the database finds the row.
CELERY_TASK_PUBLISH_RETRY = False
CELERY_TASK_DEFAULT_QUEUE = "upkeep"
CELERY_TASK_IGNORE_RESULT = True
CELERY_RESULT_BACKEND = None
# Without this, beat would be given a job that cleans up results.
CELERY_RESULT_EXPIRES = None
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_POOL = "threads"
CELERY_WORKER_CONCURRENCY = 8
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TIMEZONE = "UTC"
CELERY_ENABLE_UTC = True
CELERY_BEAT_SCHEDULER = "reach_platform.scheduler:LeaderScheduler"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "common.logging.JSONFormatter"}},
    "filters": {
        "readiness": {
            "()": "django.utils.log.CallbackFilter",
            # "not ready" is an answer to a watcher and no fault of the request
            "callback": lambda record: not (record.status_code == 503 and record.request.path == "/readyz"),
        },
    },
    "handlers": {"stdout": {"class": "logging.StreamHandler", "stream": "ext://sys.stdout", "formatter": "json"}},
    "root": {"handlers": ["stdout"], "level": REACH_LOG_LEVEL},
    "loggers": {
        # A 4xx is a caller's matter and is answered; the request log has it.
        "django.request": {"level": "ERROR", "filters": ["readiness"]},
        "django.server": {"handlers": [], "propagate": True},
        "celery.app.trace": {"level": "WARNING"},
        "celery.beat": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
    },
}
