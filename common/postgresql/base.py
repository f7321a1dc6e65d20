"""The backend itself; Django finds it by the name of this module."""

import select

import psycopg
from django.db.backends.postgresql import base


class DatabaseWrapper(base.DatabaseWrapper):  # type: ignore[misc]
    """Replaces a connection that the server has ended before it is used, not after the use has failed.

    Django can ask the server whether a connection lives, at the price of a round trip. The socket tells the same for
    nothing: between two statements a server has nothing to say but its farewell.
    """

    def ensure_connection(self) -> None:
        if self.connection is not None and not self.in_atomic_block and _has_farewell(self.connection):
            self.close()
        super().ensure_connection()


def _has_farewell(connection: "psycopg.Connection[object]") -> bool:
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
