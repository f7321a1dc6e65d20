"""One bearer key."""

import hmac
from types import SimpleNamespace

from django.conf import settings
from rest_framework import authentication, exceptions


class KeyAuthentication(authentication.BaseAuthentication):
    def authenticate(self, request):
        key = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(key.encode(), settings.API_KEY.encode()):
            raise exceptions.AuthenticationFailed
        return SimpleNamespace(is_authenticated=True), None
