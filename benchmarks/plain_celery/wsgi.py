import os

from django.core.wsgi import get_wsgi_application

from .celery import app  # noqa: F401 - shared tasks publish through it

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.plain_celery.settings")
application = get_wsgi_application()
