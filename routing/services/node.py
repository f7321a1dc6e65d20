"""Where this is running, as events name it."""

import functools
import os
import socket

_host = functools.cache(socket.gethostname)


def here() -> str:
    """`host:pid` of this process."""
    return f"{_host()}:{os.getpid()}"
