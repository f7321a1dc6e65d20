"""A clock that tests put forward."""

import datetime as dt
from collections.abc import Callable

import pytest

from common import clock


def put_forward(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """From now on the platform's clock is ahead of the machine's by the seconds that were given to this so far."""
    ahead = dt.timedelta()

    def later(seconds: float) -> None:
        nonlocal ahead
        ahead += dt.timedelta(seconds=seconds)

    monkeypatch.setattr(clock, "now", lambda: dt.datetime.now(dt.UTC) + ahead)
    return later
