"""Calls of the registry's API."""

import json
from dataclasses import dataclass
from typing import Any

from django.test import Client as WebClient


@dataclass
class Api:
    """Calls with one credential."""

    key: str | None

    def __call__(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", **headers: Any
    ) -> Any:
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        if self.key is not None:
            headers.setdefault("HTTP_AUTHORIZATION", f"Bearer {self.key}")
        headers.setdefault("CONTENT_TYPE", content_type)  # the test client leaves it out for an empty body
        client = WebClient(raise_request_exception=False)
        return client.generic(method, path, raw, content_type=content_type, **headers)


def errors_of(response: Any) -> dict[str, str]:
    """{pointer: code} of a problem document."""
    return {error["pointer"]: error["code"] for error in response.json()["errors"]}
