"""The front with a tiny Django behind it, for the tests of the front: run by granian as `tests.reach_platform.front_app`."""

import os
import time
from typing import Any

import django
from django.conf import settings

if not settings.configured:
    settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="x" * 40, MIDDLEWARE=[], DATABASES={})
    django.setup()

from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import re_path

from reach_platform.front.application import Front
from reach_platform.front.body import BodyReader
from reach_platform.front.pool import DjangoPool

LIMIT, BATCH_LIMIT = 1000, 5000


class Endless:
    """A stream that sends one line and then only waits."""

    async def respond(self, send: Any, receive: Any, answer: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": answer.headers})
        await send({"type": "http.response.body", "body": b": here\n\n", "more_body": True})
        await receive()
        await send({"type": "http.response.body", "body": b": bye\n\n"})


def view(request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
    if request.path == "/slow":
        time.sleep(float(request.GET["seconds"]))
    if request.path == "/pieces":
        return StreamingHttpResponse(b"x" * 1000 for _ in range(1000))
    if request.path == "/stream":
        response = HttpResponse(content_type="text/event-stream")
        response.hand_off = Endless()  # type: ignore[attr-defined]
        return response
    seen = {name: value for name, value in request.META.items() if isinstance(value, str)}
    return JsonResponse({"path": request.path, "size": len(request.body), "query": request.GET, "meta": seen})


urlpatterns = [re_path("", view)]

application = Front(
    DjangoPool(get_wsgi_application(), threads=2, queue=int(os.environ.get("FRONT_QUEUE", "50"))),
    BodyReader(seconds=1.0, memory=20_000),
    limit=LIMIT,
    batch_limit=BATCH_LIMIT,
)
