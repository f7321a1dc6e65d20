"""Ordinary production settings; DATABASE_URL, REDIS_URL, AGENT_URL, CELERY_DB_REUSE_MAX and DB_POOL are read."""

import os
from urllib.parse import parse_qs, urlsplit

SECRET_KEY = "only for the benchmark"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "benchmarks.plain_celery.urls"
INSTALLED_APPS = ["rest_framework", "benchmarks.plain_celery"]
MIDDLEWARE = ["django.middleware.security.SecurityMiddleware", "django.middleware.common.CommonMiddleware"]
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

database = urlsplit(os.environ["DATABASE_URL"])
query = parse_qs(database.query)
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": database.path.lstrip("/"),
        "HOST": database.hostname or query["host"][0],
        "USER": database.username or query["user"][0],
        "PASSWORD": database.password or "",
        "PORT": database.port or "",
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
    }
}
if size := os.environ.get("DB_POOL"):
    DATABASES["default"] |= {"CONN_MAX_AGE": 0, "OPTIONS": {"pool": {"min_size": 4, "max_size": int(size)}}}
REST_FRAMEWORK = {
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_AUTHENTICATION_CLASSES": ["benchmarks.plain_celery.authentication.KeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "UNAUTHENTICATED_USER": None,
}

API_KEY = "benchmark-key"
AGENT_URL = os.environ.get("AGENT_URL", "")

# kombu takes a unix socket as redis+socket://path, redis-py as unix://path.
CELERY_BROKER_URL = os.environ["REDIS_URL"].replace("unix://", "redis+socket://")
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
# The default of 10 is fewer than the worker's 100 greenlets: acknowledgements would fail under load.
CELERY_BROKER_TRANSPORT_OPTIONS = {"max_connections": 200}
