"""Keys and secrets at rest: what is only compared is hashed, what must be read again is encrypted."""

import base64
import functools
import hashlib
import secrets

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

_PURPOSE = b"agent-reach secrets at rest"


def new_key(prefix: str) -> str:
    """A new key of 256 random bits: the prefix, an underscore, 43 letters, digits, `-` or `_`."""
    return f"{prefix}_{secrets.token_urlsafe(32)}"


def hash_key(key: str) -> str:
    """SHA-256 in hex. Enough for keys of 256 random bits, which nobody can guess; never for passwords."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def encrypt(text: str) -> bytes:
    """The text under the present SECRET_KEY."""
    return _box(settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS).encrypt(text.encode())


def decrypt(data: bytes) -> str:
    """The text again, under the present key or one of SECRET_KEY_FALLBACKS. Raises ValueError when none fits."""
    try:
        return _box(settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS).decrypt(bytes(data)).decode()
    except InvalidToken:
        raise ValueError("not encrypted under this installation's secret key") from None


@functools.lru_cache(maxsize=8)
def _box(*keys: str) -> MultiFernet:
    return MultiFernet([Fernet(_derive(key)) for key in keys])


def _derive(key: str) -> bytes:
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=_PURPOSE).derive(key.encode())
    return base64.urlsafe_b64encode(derived)
