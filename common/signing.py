"""Who sent this, and is it what they sent: RFC 9421 signatures in one profile, and Standard Webhooks.

The profile: hmac-sha256 over `@method`, `@path`, `@query` and `content-digest` (RFC 9530, sha-256, also of an empty
body) with `created`, `keyid`, `alg` and `nonce`; the HMAC key is the UTF-8 of the secret key. The path and the query
are signed in the very spelling that goes over the wire: nothing is decoded, sorted or re-encoded; `@query` of no query
is `?`.

The signature base, each line as shown and without a line end at the last (whose middle is left out here):

    "@method": POST
    "@path": /v1/reach
    "@query": ?
    "content-digest": sha-256=:…:
    "@signature-params": ("@method" "@path" "@query" "content-digest");created=1767323045;keyid="AK";…;nonce="…"
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from standardwebhooks import Webhook

from common.ids import random_hex

COMPONENTS = ("@method", "@path", "@query", "content-digest")
ALGORITHM = "hmac-sha256"
MAX_SKEW = 300
LONGEST_HEADER = 4096

_COVERED = " ".join(f'"{name}"' for name in COMPONENTS)
_QUOTED = r'"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"'
_INPUT = re.compile(rf"([a-z*][a-z0-9_.*-]*)=(\(([^()]*)\)((?:; *[a-z*][a-z0-9_.*-]*(?:=(?:{_QUOTED}|-?[0-9]+))?)*))")
_PARAMETER = re.compile(rf"; *([a-z*][a-z0-9_.*-]*)(?:=({_QUOTED}|-?[0-9]+))?")
_SIGNATURE = re.compile(r"([a-z*][a-z0-9_.*-]*)=:([A-Za-z0-9+/]+={0,2}):")
_DIGEST = re.compile(r"(?:^|, *)sha-256=:([A-Za-z0-9+/]{43}=):(?= *(?:,|$))")
_CREATED = re.compile(r"[0-9]{1,15}")
_KEY_OF_NOBODY = "no client has this secret"


class BadSignature(ValueError):
    """The request is not signed, or not so by anyone we know; outside there is one answer for every cause."""


@dataclass(frozen=True)
class Signed:
    """Who signed, with which nonce, and when (seconds since 1970)."""

    keyid: str
    nonce: str
    created: int


def content_digest(body: bytes) -> str:
    """The Content-Digest header of a body."""
    return f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"


def sign(
    method: str,
    url_path: str,
    query: str,
    body: bytes,
    access_key: str,
    secret: str,
    *,
    created: int,
    nonce: str,
) -> dict[str, str]:
    """The headers Content-Digest, Signature-Input and Signature of a request.

    `url_path` and `query` (without `?`) are spelled as on the wire, `created` is in seconds; `access_key` and `nonce`
    are visible ASCII without quotes and backslashes. Raises ValueError otherwise.
    """
    if re.search(r"[^\x21\x23-\x5b\x5d-\x7e]", access_key + nonce):
        raise ValueError("an access key and a nonce are visible ASCII without quotes and backslashes")
    digest = content_digest(body)
    params = f'({_COVERED});created={created};keyid="{access_key}";alg="{ALGORITHM}";nonce="{nonce}"'
    base = _base(COMPONENTS, method, url_path, query, digest, params)
    return {
        "Content-Digest": digest,
        "Signature-Input": f"sig1={params}",
        "Signature": f"sig1=:{base64.b64encode(_mac(secret, base)).decode()}:",
    }


def verify(
    method: str,
    path: str,
    query: str,
    body: bytes,
    headers: Mapping[str, str],
    secret_of: Callable[[str], list[str] | None],
    *,
    now: datetime,
    max_skew: int = MAX_SKEW,
) -> Signed:
    """Check a request's signature; nonces are for the caller to remember, for at least twice `max_skew` seconds.

    `path` and `query` (without `?`) are as on the wire, `headers` find their values in any case of the name,
    `secret_of` gives the secrets of an access key (two while keys overlap) or None. Raises BadSignature, and nothing
    else.
    """
    digest_header, input_header, signature_header = (
        _header(headers, name) for name in ("Content-Digest", "Signature-Input", "Signature")
    )
    label, params, covered, named = _parse_input(input_header)
    keyid, nonce, created = _identity(named)
    if abs(created - int(now.timestamp())) > max_skew:
        raise BadSignature("created is too far from now")
    given = _parse_signature(signature_header, label)
    base = _base(covered, method, path, query, digest_header, params)
    known = secret_of(keyid)
    # An unknown key costs the same work as a wrong signature, so that the time taken does not tell them apart.
    fits = [hmac.compare_digest(_mac(secret, base), given) for secret in known or [_KEY_OF_NOBODY]]
    _check_digest(digest_header, body)
    if not known or not any(fits):
        raise BadSignature("the signature does not fit")
    return Signed(keyid, nonce, created)


def _header(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name) or headers.get(name.lower())
    if value is None:
        value = next((text for key, text in headers.items() if key.lower() == name.lower()), None)
    if (
        not isinstance(value, str)
        or not value
        or len(value) > LONGEST_HEADER
        or not (value.isascii() and value.isprintable())
    ):
        raise BadSignature(f"{name} is absent or not readable")
    return value.strip()


def _parse_input(text: str) -> tuple[str, str, tuple[str, ...], dict[str, str]]:
    """Label, the parameters as sent, the covered components in order, and the parameters by name."""
    match = _INPUT.fullmatch(text)
    if match is None:
        raise BadSignature("Signature-Input is not one signature")
    label, params, inside, tail = match.groups()
    covered = tuple(part.strip('"') for part in inside.split())
    if sorted(covered) != sorted(COMPONENTS) or " ".join(f'"{name}"' for name in covered) != inside.strip():
        raise BadSignature("other components are covered than should be")
    pairs = _PARAMETER.findall(tail)
    named = dict(pairs)
    if len(named) != len(pairs):
        raise BadSignature("a parameter is there twice")
    return label, params, covered, named


def _identity(named: dict[str, str]) -> tuple[str, str, int]:
    keyid, nonce, algorithm = (_unquoted(named.get(name, "")) for name in ("keyid", "nonce", "alg"))
    created = named.get("created", "")
    if algorithm != ALGORITHM or not keyid or not nonce or not _CREATED.fullmatch(created):
        raise BadSignature("keyid, nonce, alg or created is absent or wrong")
    return keyid, nonce, int(created)


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else ""


def _parse_signature(text: str, label: str) -> bytes:
    match = _SIGNATURE.fullmatch(text)
    if match is None or match[1] != label:
        raise BadSignature("Signature is not one signature of that label")
    try:
        return base64.b64decode(match[2], validate=True)
    except binascii.Error:
        raise BadSignature("Signature is not base64") from None


def _check_digest(header: str, body: bytes) -> None:
    digests = _DIGEST.findall(header)
    if len(digests) != 1 or f"sha-256=:{digests[0]}:" != content_digest(body):
        raise BadSignature("Content-Digest does not fit the body")


def _base(covered: Sequence[str], method: str, path: str, query: str, digest: str, params: str) -> bytes:
    values = {"@method": method.upper(), "@path": path or "/", "@query": "?" + query, "content-digest": digest}
    lines = [f'"{name}": {values[name]}' for name in covered]
    try:
        return "\n".join([*lines, f'"@signature-params": {params}']).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise BadSignature("the path or the query holds half a surrogate pair") from None


def _mac(secret: str, base: bytes) -> bytes:
    return hmac.digest(secret.encode(), base, "sha256")


def new_nonce() -> str:
    """32 random hex digits."""
    return random_hex(32)


def new_webhook_secret() -> str:
    """A Standard Webhooks secret of 256 random bits."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def webhook_headers(message_id: str, timestamp: datetime | int, body: bytes, secrets: list[str]) -> dict[str, str]:
    """The Standard Webhooks headers of a message; one signature for each secret while two overlap."""
    at = datetime.fromtimestamp(timestamp, UTC) if isinstance(timestamp, int) else timestamp
    text = body.decode()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(Webhook(secret).sign(message_id, at, text) for secret in secrets),
    }
