"""Verification of the platform's RFC 9421 signatures (hmac-sha256 over method, path, query and body digest)."""

from datetime import timedelta
from types import SimpleNamespace

from aiohttp import web
from http_message_signatures import HTTPMessageSignaturesException, HTTPMessageVerifier, HTTPSignatureKeyResolver
from http_message_signatures.algorithms import HMAC_SHA256

SIGNED_COMPONENTS = ("@method", "@path", "@query", "content-digest")
MAX_AGE = timedelta(minutes=5)


class SharedSecret(HTTPSignatureKeyResolver):
    """Resolves every key id to the one secret that platform and agent share."""

    def __init__(self, secret: str):
        self._secret = secret.encode()

    def resolve_public_key(self, key_id: str) -> bytes:
        return self._secret

    resolve_private_key = resolve_public_key


class SignatureCheck:
    """Lets signed requests through and refuses others; without a secret it lets everything through."""

    def __init__(self, secret: str | None):
        self._verifier = secret and HTTPMessageVerifier(
            signature_algorithm=HMAC_SHA256, key_resolver=SharedSecret(secret)
        )

    async def require(self, request: web.Request) -> None:
        """Raise HTTPUnauthorized unless a valid signature covers method, path, query and body."""
        if not self._verifier:
            return
        url = f"http://{request.host}{request.raw_path}"
        message = SimpleNamespace(method=request.method, url=url, headers=request.headers)
        body = await request.read()
        try:
            self._verifier.verify(message, body=body, require_components=SIGNED_COMPONENTS, max_age=MAX_AGE)
        except HTTPMessageSignaturesException as error:
            raise web.HTTPUnauthorized(text=f"signature refused: {error}") from error
