"""Requests out, against a scripted server on a loopback port."""

import asyncio
import contextlib
import socket
import ssl
import struct
from datetime import timedelta
from ipaddress import ip_network

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from common.addresses import UrlRefused, check_url, is_allowed
from common.clock import now
from common.outbound import Outbound, OutboundError

NOW = now()
LOOPBACK = [ip_network("127.0.0.0/8"), ip_network("::1/128")]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: 1\r\nX-A: 2\r\n\r\n{}"


class Peer:
    """Counts requests and answers each with bytes, or with what a coroutine does to the connection."""

    def __init__(self, answer):
        self.answer, self.requests, self.connections = answer, [], 0

    async def serve(self, reader, writer):
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (int(x.split(b":")[1]) for x in head.lower().split(b"\r\n") if x.startswith(b"content-length")), 0
                )
                self.requests.append((head, await reader.readexactly(length)))
                if callable(self.answer):
                    await self.answer(writer)
                    break
                writer.write(self.answer)
                await writer.drain()
        writer.close()


def ask(answer, *, method="POST", allow=LOOPBACK, times=1, pause=0.0, host="127.0.0.1", path="/hook?x=1", **options):
    """(last answer or error, peer) after `times` requests to a peer that gives this answer."""

    async def run():
        peer = Peer(answer)
        server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        out = Outbound(allow, user_agent="Reach/test")
        settings = {"total_timeout_s": 2.0, "max_bytes": 1000, "body": b"{}"} | options
        try:
            for _ in range(times):
                result = await out.request(method, f"http://{host}:{port}{path}", **settings)
                await asyncio.sleep(pause)
        except OutboundError as error:
            result = error
        finally:
            await out.close()
            server.close()
        return result, peer

    return asyncio.run(run())


async def reset(writer):
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def close(writer):
    writer.close()


async def hang(writer):
    await asyncio.sleep(5)


def test_an_answer_comes_whole_with_its_times():
    answer, peer = ask(OK)
    assert (answer.status, answer.body, answer.truncated, answer.headers.getall("x-a")) == (
        200,
        b"{}",
        False,
        ["1", "2"],
    )
    assert 0 < answer.connect_ms <= answer.first_byte_ms <= answer.total_ms
    assert peer.requests[0][0].startswith(b"POST /hook?x=1 HTTP/1.1\r\n")


def test_the_path_and_query_go_out_in_the_spelling_given():
    _, peer = ask(OK, path="/a%2fb/%7E/~?b=2&a=1&x&y=+%20")
    assert peer.requests[0][0].split(b" ")[1] == b"/a%2fb/%7E/~?b=2&a=1&x&y=+%20"


def test_a_connection_is_kept_for_the_next_request():
    answer, peer = ask(OK, times=3)
    assert (peer.connections, len(peer.requests), answer.connect_ms) == (1, 3, 0.0)


def test_loopback_is_blocked_unless_allowed_and_nothing_arrives():
    """Case 9."""
    error, peer = ask(OK, allow=[])
    assert (error.kind, error.sent, peer.connections) == ("BLOCKED", False, 0)


def test_a_name_that_resolves_inside_is_blocked_at_connect_time():
    """Case 9."""
    error, peer = ask(OK, allow=[], host="localhost")
    assert (error.kind, peer.connections) == ("BLOCKED", 0)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_an_answer_and_is_not_followed(status):
    """Cases 10 and 42."""
    answer, peer = ask(b"HTTP/1.1 %d x\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n" % status)
    assert (answer.status, len(peer.requests)) == (status, 1)


@pytest.mark.parametrize("method", ["POST", "GET", "PUT", "DELETE"])
@pytest.mark.parametrize("answer", [reset, close])
def test_a_connection_that_dies_after_sending_is_broken_and_never_sent_again(method, answer):
    """Case 38."""
    error, peer = ask(answer, method=method)
    assert (error.kind, error.sent, error.answered, len(peer.requests)) == ("BROKEN", True, False, 1)


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_kept_connection_that_dies_is_broken_and_never_sent_again(method):
    """Case 38."""

    class Twice(Peer):
        async def serve(self, reader, writer):
            for count in (1, 2):
                self.requests.append(await reader.readuntil(b"\r\n\r\n"))
                if count == 2:
                    await reset(writer)
                else:
                    writer.write(OK)

    async def run():
        peer = Twice(None)
        server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
        out = Outbound(LOOPBACK)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        await out.request(method, url, total_timeout_s=2, max_bytes=100)
        with pytest.raises(OutboundError) as caught:
            await out.request(method, url, total_timeout_s=2, max_bytes=100)
        await out.close()
        server.close()
        return caught.value, peer

    error, peer = asyncio.run(run())
    assert (error.kind, error.sent, len(peer.requests)) == ("BROKEN", True, 2)


def test_no_answer_in_time_is_a_timeout_after_sending():
    error, peer = ask(hang, total_timeout_s=0.2)
    assert (error.kind, error.sent, error.answered, len(peer.requests)) == ("TIMEOUT", True, False, 1)


def test_nobody_listening_is_unreachable_and_not_sent():
    async def run():
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            out = Outbound(LOOPBACK)
            try:
                await out.request(
                    "POST", f"http://127.0.0.1:{closed.getsockname()[1]}/", total_timeout_s=2, max_bytes=9
                )
            finally:
                await out.close()

    with pytest.raises(OutboundError) as caught:
        asyncio.run(run())
    assert (caught.value.kind, caught.value.sent) == ("UNREACHABLE", False)


def test_tls_must_show_a_certificate_for_the_name(tmp_path):
    """Cases 9 and 41."""

    async def run():
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self_signed(tmp_path))
        peer = Peer(OK)
        server = await asyncio.start_server(peer.serve, "127.0.0.1", 0, ssl=context)
        out = Outbound(LOOPBACK)
        url = f"https://localhost:{server.sockets[0].getsockname()[1]}/"
        with pytest.raises(OutboundError) as caught:
            await out.request("POST", url, total_timeout_s=2, max_bytes=9)
        await out.close()
        server.close()
        return caught.value, peer

    error, peer = asyncio.run(run())
    assert (error.kind, error.sent, peer.requests) == ("UNREACHABLE", False, [])


def self_signed(folder):
    """A file with a key and a certificate for localhost that nobody vouches for."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, NOW - timedelta(days=1), NOW + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path = folder / "both.pem"
    path.write_bytes(private + certificate.public_bytes(Encoding.PEM))
    return path


def test_an_unknown_name_is_unreachable_and_not_sent():
    error, _ = ask(OK, host="nobody.invalid")
    assert (error.kind, error.sent) == ("UNREACHABLE", False)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 20",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    ],
)
def test_an_answer_that_is_cut_or_no_http_is_broken(answer):
    """Case 18."""

    async def answer_and_close(writer):
        writer.write(answer)
        await writer.drain()

    error, _ = ask(answer_and_close)
    assert (error.kind, error.sent, error.answered) == ("BROKEN", True, answer != b"HTTP/1.1 20")


def test_a_large_answer_is_refused_or_cut_where_asked():
    large = b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + b"x" * 300000
    error, _ = ask(large)
    answer, _ = ask(large, keep_bytes=64)
    assert (error.kind, error.sent, len(answer.body), answer.truncated) == ("TOO_LARGE", True, 64, True)


def test_the_environments_proxy_and_cookies_are_not_used(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    answer, peer = ask(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n", times=2)
    assert answer.status == 200
    assert b"cookie" not in peer.requests[1][0].lower()


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "192.0.2.1",
        "198.51.100.1",
        "203.0.113.9",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "240.0.0.1",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "ff02::1",
        "2001:db8::1",
        "64:ff9b::7f00:1",
        "64:ff9b::a00:1",
        "2002:7f00:1::",
        "2001::1",
        "fec0::1",
        "nonsense",
    ],
)
def test_inner_addresses_are_not_allowed(address):
    """Case 9."""
    assert not is_allowed(address, [])


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_public_addresses_are_allowed(address):
    assert is_allowed(address, [])


def test_an_operator_may_allow_a_private_network():
    assert is_allowed("10.1.2.3", [ip_network("10.0.0.0/8")])
    assert is_allowed("::ffff:10.1.2.3", [ip_network("10.0.0.0/8")])
    assert not is_allowed("10.1.2.3", [ip_network("fc00::/7")])


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://example.com/",
        "file:///etc/passwd",
        "example.com",
        "http://",
        "http:///x",
        "//example.com/",
        "http://a:b@example.com/",
        "http://@example.com/",
        "http://example.com:0/",
        "http://example.com:99999/",
        "http://example.com:x/",
        "http://exa mple.com/",
        "http://example.com/é",
        "http://example.com/\n",
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://127.0.0.1./",
        "http://0/",
        "http://[::1",
        "http://[fe80::1%25eth0]/",
        "http://example.com\\@127.0.0.1/",
        "http://exa_mple..com/",
        "http://%31%32%37.0.0.1/",
        "javascript:alert(1)",
        "http://" + "a" * 64 + ".com/",
        "http://example.com/" + "a" * 2048,
        None,
        ["http://example.com/"],
    ],
)
def test_a_url_that_could_never_be_called_is_refused_at_the_door(url):
    """Case 9."""
    with pytest.raises(UrlRefused):
        check_url(url, [])


@pytest.mark.parametrize(
    "url", ["https://example.com", "http://example.com:8080/a?b=c#d", "https://8.8.8.8/", "HTTPS://EXAMPLE.com/"]
)
def test_a_public_url_passes_the_door(url):
    check_url(url, [])


def test_a_name_that_leads_inside_is_refused_when_asked_to_resolve():
    check_url("http://localhost/", [])
    with pytest.raises(UrlRefused):
        check_url("http://localhost/", [], resolve=True)
    check_url("http://localhost/", LOOPBACK, resolve=True)


@pytest.mark.parametrize("address", ["::127.0.0.1", "::10.0.0.1", "::a9fe:a9fe", "::ffff:0:7f00:1"])
def test_ipv6_that_carries_an_ipv4_address_in_an_old_form_is_refused(address):
    """Case 9."""
    assert not is_allowed(address, [])
