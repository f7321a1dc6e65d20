"""When traffic changed, as the table of the unwell tells it; and a heart that beats."""

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from benchmarks.heartbeats import beating
from benchmarks.unwell import change_of, returned_at


def test_the_change_is_where_the_last_task_went_before_they_ceased():
    series = [(float(n), n % 2 == 0) for n in range(41)] + [(41.0 + n, False) for n in range(40)]
    at, before, after = change_of(series)
    assert (at, round(before, 1), after) == (40.0, 0.5, 0.0)


def test_a_smaller_share_is_told_from_none():
    series = [(float(n), n % 2 == 0) for n in range(60)] + [(60.0 + n, n % 10 == 0) for n in range(60)]
    at, before, after = change_of(series)
    assert 55 <= at <= 61
    assert (round(before, 1), round(after, 1)) == (0.5, 0.1)


def test_it_is_back_with_the_first_task_that_it_gets():
    assert returned_at([(101.0, False), (103.5, True), (104.0, True)], 100.0) == 3.5
    assert returned_at([(101.0, False)], 100.0) is None


def test_each_instance_beats_once_an_interval(monkeypatch):
    monkeypatch.setattr("benchmarks.heartbeats.INTERVAL_S", 1.0)
    monkeypatch.setattr("random.random", lambda: 0.1)  # the last one is due long before the end
    heard = []

    class Platform(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            heard.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Platform) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        posts = asyncio.run(beating(url, [("/a", "key"), ("/b", "key")], 3.0))
        server.shutdown()
    assert sorted(heard) == ["/a"] * 3 + ["/b"] * 3
    assert {post.status for post in posts} == {200}
