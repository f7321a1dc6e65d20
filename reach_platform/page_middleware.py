"""Django's middleware for pages, which lets the API pass by: that has no session, no language, no form and no frame.

A tenth of the API's time went into sessions and languages that nobody asked for.
"""

from typing import Any

from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django.middleware.locale import LocaleMiddleware
from django.utils import translation
from django.utils.deprecation import MiddlewareMixin

API = "/v1/"


class _PagesOnly(MiddlewareMixin):
    def __call__(self, request: HttpRequest) -> Any:
        if request.path_info.startswith(API):
            return self.get_response(request)
        return super().__call__(request)


class PageSession(_PagesOnly, SessionMiddleware):
    """`request.session`."""


class PageLanguage(_PagesOnly, LocaleMiddleware):
    """The language of the page, which ends with it: the next request in this thread may be the API's."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        try:
            answer: HttpResponseBase = super().__call__(request)
            return answer
        finally:
            translation.deactivate()


class PageForms(_PagesOnly, CsrfViewMiddleware):
    """The check of a form's token; the API's callers have no cookies that could be abused."""


class PageUser(_PagesOnly, AuthenticationMiddleware):
    """`request.user`."""


class PageMessages(_PagesOnly, MessageMiddleware):
    """Notes for the next page."""


class PageFrames(_PagesOnly, XFrameOptionsMiddleware):
    """No page may be shown within another's; the API says so by its content security policy."""
