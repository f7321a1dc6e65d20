"""The guides of `docs/`, for those who look at a page that names one: as text, of just this release."""

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse


def guide(request: HttpRequest, name: str) -> HttpResponse:
    """A guide as it was written (Markdown)."""
    known = {path.stem: path for path in (settings.BASE_DIR / "docs").glob("*.md")}
    if name not in known:
        raise Http404
    return HttpResponse(known[name].read_bytes(), content_type="text/plain; charset=utf-8")
