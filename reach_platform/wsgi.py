"""Django's WSGI handler, which the web front hands its requests to."""

import os

from django.core.signals import request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, reset_queries

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reach_platform.settings")

application = get_wsgi_application()

# Django looks after every connection before and after each request; after is enough. It also forgets queries that only
# DEBUG would have kept.
request_started.disconnect(close_old_connections)
request_started.disconnect(reset_queries)
