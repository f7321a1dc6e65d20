"""An engine over the real database, and local servers that play agents and receivers."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.committed import database, database_made  # noqa: F401 - fixtures


@pytest.fixture(scope="session")
def _others_leave(database_made: None, django_db_blocker: Any) -> Iterator[None]:  # noqa: F811
    """Threads that live as long as the process keep their connections, and so would keep the database."""
    from django.db import connection

    yield
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


@pytest.fixture(autouse=True)
def _committed(_others_leave: None, database: None) -> None:  # noqa: F811
    """Every test here reads and writes for good."""


@pytest.fixture
def serve() -> Iterator[Callable[..., Any]]:
    """serve(answer) starts a LocalServer that answers so."""
    from tests.routing.engine.local import LocalServer

    servers: list[LocalServer] = []

    def start(answer: Any = None, port: int = 0) -> LocalServer:
        servers.append(LocalServer(answer, port))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def engine(settings: Any) -> Iterator[Any]:
    from routing.engine.loop import Engine

    settings.REACH_OUTBOUND_ALLOW = ["127.0.0.0/8"]
    engine = Engine(room=500)
    engine.start()
    yield engine
    engine.stop(2.0)


@pytest.fixture
def town(serve: Any) -> Any:
    """A namespace with a client and one agent that answers {"y": 1}."""
    from tests.routing.engine.town import Town

    return Town(serve)


@pytest.fixture
def cutting_server() -> Iterator[str]:
    """The address of a server whose answers end before their Content-Length says."""
    import socket
    import threading

    listener = socket.create_server(("127.0.0.1", 0))

    def serve_cut() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                connection.sendall(
                    b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"y":'
                )

    threading.Thread(target=serve_cut, daemon=True).start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    listener.close()
