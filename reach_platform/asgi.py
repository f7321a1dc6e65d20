"""The web server's application: `granian --interface asgi reach_platform.asgi:application`."""

from django.conf import settings
from django.urls import get_resolver

from reach_platform.front.application import Front
from reach_platform.front.body import BodyReader
from reach_platform.front.pool import DjangoPool
from reach_platform.wsgi import application as django
from registry.services import listening  # isort: split

from reach_platform.front.heartbeats import HeartbeatLane  # reads models, so Django is set up before

QUEUE = 1000  # requests that may wait for a thread: below a second's work
BODIES_BYTES = 256 * 1024 * 1024

get_resolver().url_patterns  # noqa: B018 - imports the views now, and not while the first caller waits

listening.begin()

application = Front(
    DjangoPool(django, threads=settings.REACH_WEB_THREADS, queue=QUEUE),
    BodyReader(seconds=settings.REACH_UPLOAD_TIMEOUT, memory=BODIES_BYTES),
    HeartbeatLane(),
    limit=settings.REACH_MAX_BODY_BYTES,
    batch_limit=settings.REACH_MAX_BATCH_BYTES,
)
