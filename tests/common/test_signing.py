"""Our signatures, with the http-message-signatures and standardwebhooks libraries as judges."""

import base64
import hashlib
import hmac
import time
from datetime import UTC, datetime

import pytest
from http_message_signatures import HTTPMessageSigner, HTTPMessageVerifier, HTTPSignatureKeyResolver, algorithms
from hypothesis import given
from hypothesis import strategies as st
from requests.structures import CaseInsensitiveDict
from standardwebhooks import Webhook

from common.signing import COMPONENTS, BadSignature, content_digest, new_webhook_secret, sign, verify, webhook_headers

NOW = datetime.now(UTC).replace(microsecond=0)
TS = int(NOW.timestamp())
TARGETS = [
    "/v1/reach",
    "/v1/reach?b=2&a=1&a=0&x&y=",
    "/v1/%7E/~/@",
    "/v1/a%2fb?q=a+b%20c",
    "/v1/a/?x=%e9&x=%E9",
    "/v1//a/./b/../c",
    "/",
]


class Message:
    def __init__(self, method, target, headers):
        self.method, self.url, self.headers = method, f"http://reach.test:8600{target}", CaseInsensitiveDict(headers)


class Keys(HTTPSignatureKeyResolver):
    def resolve_private_key(self, key_id):
        return b"secret"

    resolve_public_key = resolve_private_key


def signed(target="/v1/reach", body=b"{}", method="POST", **changes):
    path, _, query = target.partition("?")
    return sign(method, path, query, body, "AK", "secret", **{"created": TS, "nonce": "n-1"} | changes)


def by_hand(
    created=TS, cover=COMPONENTS, tail=';keyid="AK";alg="hmac-sha256";nonce="n"', label="sig1", target="/v1/reach"
):
    """A signature whose every part may be wrong, by string building."""
    values = {"@method": "POST", "@path": target, "@query": "?", "content-digest": content_digest(b"{}"), "host": "x"}
    params = "(" + " ".join(f'"{name}"' for name in cover) + f");created={created}{tail}"
    base = "".join(f'"{name}": {values[name]}\n' for name in cover) + f'"@signature-params": {params}'
    mac = base64.b64encode(hmac.new(b"secret", base.encode(), hashlib.sha256).digest()).decode()
    return {
        "Content-Digest": values["content-digest"],
        "Signature-Input": f"{label}={params}",
        "Signature": f"{label}=:{mac}:",
    }


def check(headers, target="/v1/reach", body=b"{}", method="POST", secrets=("secret",)):
    path, _, query = target.partition("?")
    return verify(method, path, query, body, headers, lambda key: list(secrets) if key == "AK" else None, now=NOW)


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "OPTIONS", "DELETE"])
@pytest.mark.parametrize("target", TARGETS)
def test_the_library_accepts_what_we_sign(target, method):
    """Case 35."""
    message = Message(method, target, signed(target, b"", method))
    HTTPMessageVerifier(signature_algorithm=algorithms.HMAC_SHA256, key_resolver=Keys()).verify(
        message, body=b"", require_components=COMPONENTS
    )


@pytest.mark.parametrize("body", [b"", b"{}", b"\xff\x00"])
@pytest.mark.parametrize("target", TARGETS)
def test_we_accept_what_the_library_signs(target, body):
    """Case 35."""
    message = Message("POST", target, {})
    HTTPMessageSigner(signature_algorithm=algorithms.HMAC_SHA256, key_resolver=Keys()).sign(
        message,
        key_id="AK",
        body=body,
        covered_component_ids=COMPONENTS[::-1],
        label="mine",
        nonce="n-1",
        created=NOW.astimezone(),
    )
    found = check(dict(message.headers), target, body)
    assert (found.keyid, found.nonce, found.created) == ("AK", "n-1", TS)


def test_a_known_signature():
    """Case 35: a test vector for clients in other languages."""
    headers = sign("POST", "/v1/reach", "a=1", b"{}", "AK", "secret", created=1767323045, nonce="n-1")
    assert headers == {
        "Content-Digest": "sha-256=:RBNvo1WzZ4oRRq0W9+hknpT7T8If536DEMBg9hyq/4o=:",
        "Signature-Input": 'sig1=("@method" "@path" "@query" "content-digest");created=1767323045;keyid="AK";alg="hmac-sha256";nonce="n-1"',
        "Signature": "sig1=:e8Zdnx3r8HBrw2iXR7/RVuSOKhI9tthmdH/G6ODr22Y=:",
    }


@pytest.mark.parametrize(
    "changed",
    [
        {"target": "/v1/reach/"},
        {"target": "/v1/Reach"},
        {"target": "/v1/reach?"[:-1] + "?a="},
        {"body": b"{ }"},
        {"body": b""},
        {"method": "PUT"},
        {"secrets": ("other",)},
        {"target": "/v1/%72each"},
    ],
)
def test_any_change_spoils_the_signature(changed):
    """Case 35."""
    with pytest.raises(BadSignature):
        check(signed(), **changed)


@pytest.mark.parametrize(
    ("a", "b"), [("/x?a=1&b=2", "/x?b=2&a=1"), ("/x?a=+", "/x?a=%20"), ("/x?a=%2f", "/x?a=%2F"), ("/x?a", "/x?a=")]
)
def test_spellings_of_a_query_are_not_the_same(a, b):
    """Case 35."""
    with pytest.raises(BadSignature):
        check(signed(a), b)


def test_an_absent_query_is_an_empty_query():
    assert check(signed("/v1/reach?"), "/v1/reach").keyid == "AK"


def test_both_secrets_fit_while_they_overlap():
    assert check(signed(), secrets=("new", "secret")).keyid == "AK"


@pytest.mark.parametrize("offset", [-300, -299, 0, 300])
def test_a_time_within_the_window_is_accepted(offset):
    """Case 36."""
    assert check(signed(created=TS + offset)).created == TS + offset


@pytest.mark.parametrize("offset", [-301, 301])
def test_a_time_outside_the_window_is_refused(offset):
    """Case 36."""
    with pytest.raises(BadSignature):
        check(by_hand(TS + offset))


@pytest.mark.parametrize(
    "text",
    [
        "{now}000",
        "{now}.0",
        "nan",
        "inf",
        "1e9",
        "1_700_000_000",
        "١٧٠٠٠٠٠٠٠٠",
        "9" * 5000,
        "",
        "+{now}",
        "-{now}",
        '"{now}"',
        " {now}",
        "{now} ",
        "{now}junk",
        "?1",
    ],
)
def test_what_is_no_time_in_seconds_is_refused(text):
    """Case 36."""
    with pytest.raises(BadSignature):
        check(by_hand(text.format(now=TS)))


@pytest.mark.parametrize("cover", [COMPONENTS[:3], COMPONENTS[1:], (), (*COMPONENTS, "host"), (*COMPONENTS, "@path")])
def test_exactly_the_four_components_must_be_covered(cover):
    """Case 35."""
    with pytest.raises(BadSignature):
        check(by_hand(cover=cover))


@pytest.mark.parametrize(
    "tail",
    [
        "",
        ';keyid="AK"',
        ';keyid="AK";alg="hmac-sha256"',
        ';alg="hmac-sha256";nonce="n"',
        ';keyid="AK";alg="hmac-sha512";nonce="n"',
        ';keyid="";alg="hmac-sha256";nonce="n"',
        ';keyid="AK";alg="hmac-sha256";nonce=""',
        ';keyid=AK;alg="hmac-sha256";nonce="n"',
        ';keyid="AK";keyid="AK";alg="hmac-sha256";nonce="n"',
        ';keyid="nobody";alg="hmac-sha256";nonce="n"',
    ],
)
def test_keyid_nonce_and_algorithm_must_be_there_once(tail):
    with pytest.raises(BadSignature):
        check(by_hand(tail=tail))


def test_any_label_and_any_order_of_parameters_will_do():
    assert check(by_hand(label="my-sig_2", tail=';nonce="n";alg="hmac-sha256";keyid="AK";tag="x"')).nonce == "n"


@pytest.mark.parametrize("name", ["Content-Digest", "Signature-Input", "Signature"])
@pytest.mark.parametrize(
    "value",
    ["é", "\xff", "", "x" * 1_000_000, "sig1=::", "sig1=:é:", "sig1=:AA:, sig1=:AA:", "a\0b", "\ud800", "sig1=:====:"],
)
def test_an_odd_header_is_a_bad_signature_and_nothing_else(name, value):
    """Case 14."""
    started = time.thread_time()
    with pytest.raises(BadSignature):
        check(signed() | {name: value})
    assert time.thread_time() - started < 0.1


@pytest.mark.parametrize("name", ["Content-Digest", "Signature-Input", "Signature"])
def test_a_missing_or_doubled_header_is_a_bad_signature(name):
    """Case 14."""
    headers = signed()
    with pytest.raises(BadSignature):
        check(headers | {name: f"{headers[name]}, {headers[name]}"})
    del headers[name]
    with pytest.raises(BadSignature):
        check(headers)


@given(st.tuples(st.text(), st.text(), st.text(), st.text()))
def test_no_header_text_raises_anything_else(values):
    """Case 14."""
    digest, given_input, signature, path = values
    with pytest.raises(BadSignature):
        check({"content-digest": digest, "signature-input": given_input, "signature": signature}, path)


def test_a_hexadecimal_signature_is_refused():
    """Case 14."""
    with pytest.raises(BadSignature):
        check(signed() | {"Signature": "sig1=" + "AB" * 32})


def test_names_of_headers_are_found_in_any_case():
    assert check({name.upper(): value for name, value in signed().items()}).keyid == "AK"


def test_an_access_key_that_would_break_out_of_its_quotes_is_not_signed():
    with pytest.raises(ValueError, match="access key"):
        sign("GET", "/", "", b"", 'AK";x="', "secret", created=TS, nonce="n")


def test_both_webhook_secrets_verify_while_they_overlap():
    old, new = new_webhook_secret(), new_webhook_secret()
    at = datetime.now(UTC).replace(microsecond=0)  # the verifier has its own clock, and five minutes of patience
    headers = webhook_headers("msg-1", at, '{"a":"é"}'.encode(), [new, old])
    assert [Webhook(secret).verify('{"a":"é"}', headers) for secret in (old, new)] == [{"a": "é"}] * 2
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == ("msg-1", str(int(at.timestamp())))
