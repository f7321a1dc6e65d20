"""Django's WSGI handler, which the web front hands its requests to."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reach_platform.settings")

application = get_wsgi_application()
