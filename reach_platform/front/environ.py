"""An ASGI scope as the WSGI environ that Django reads."""

import io
import sys
from typing import Any
from urllib.parse import unquote_to_bytes

_OWN = {b"content-type": "CONTENT_TYPE", b"content-length": "CONTENT_LENGTH"}


def build(scope: dict[str, Any], body: bytes) -> dict[str, Any]:
    """The environ of one request whose body has been read; text is latin-1 over the bytes as received (PEP 3333)."""
    raw_path, query = scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1")
    client, server = scope.get("client") or ("", 0), scope.get("server") or ("localhost", 80)
    environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(scope["raw_path"]).decode("latin-1"),
        "QUERY_STRING": query,
        "REQUEST_URI": f"{raw_path}?{query}" if query else raw_path,  # what a signature covers, before any decoding
        "SERVER_NAME": str(server[0]),
        "SERVER_PORT": str(server[1]),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": str(client[0]),
        "REMOTE_PORT": str(client[1]),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    _add_headers(environ, scope["headers"])
    environ["CONTENT_LENGTH"] = str(len(body))  # chunked bodies have none, and Django reads no further than this
    return environ


def _add_headers(environ: dict[str, Any], headers: list[tuple[bytes, bytes]]) -> None:
    for name, value in headers:
        if b"_" in name:
            continue  # X_Y would pass for X-Y
        key = _OWN.get(name) or "HTTP_" + name.decode("latin-1").upper().replace("-", "_")
        text = value.decode("latin-1")
        if key in environ:
            text = f"{environ[key]}{'; ' if name == b'cookie' else ','}{text}"
        environ[key] = text
