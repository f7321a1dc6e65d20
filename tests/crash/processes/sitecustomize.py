"""Makes the platform's own processes die at a point that a test names: Python imports this at every start.

A point is armed by a file `<CRASH_POINTS_DIR>/<point>/<name>` that holds words, one a line; the process that comes to
the point with one of the words in what it is doing renames the file to `<name>.died` and is gone at once, as by kill
-9. Only one process can rename it, so each file kills once. The product itself knows nothing of this.
"""

import asyncio
import importlib.abc
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

PLACE = Path(os.environ.get("CRASH_POINTS_DIR", "/nowhere"))

# module → (what in it, the point before it, the point after it)
POINTS: dict[str, list[tuple[str, str | None, str | None]]] = {
    "routing.services.accept": [("_insert", "accept.before", "accept.after"), ("accept", None, "accept.answer")],
    "routing.services.claim": [("claim", "claim.before", "claim.after")],
    "routing.services.dispatch": [("dispatch", "dispatch.before", "dispatch.after")],
    "routing.services.settle": [("settle", "settle.before", "settle.after")],
    "routing.services.receipt": [("received", "received.before", "received.after")],
    "routing.services.report": [("result", "report.before", "report.after")],
    "routing.services.moves": [("apply", None, "apply.after")],
    "routing.services.cancel": [("cancel", None, "cancel.after")],
    "routing.services.chunks": [("note", None, "chunks.after")],
    "routing.services.polls": [("claim", None, "poll.claimed"), ("ended", "poll.before", "poll.after")],
    "routing.services.lease": [("take", None, "lease.after")],
    "routing.channels.http": [("HttpChannel.send", "send.during", None)],
    "routing.channels.websocket": [("WebsocketChannel.send", "socket.during", None)],
    "routing.engine.lookups": [("Lookups.before", None, "lookup.after")],
    "callbacks.services": [("finish", "told.before", "told.after")],
}
# Nobody waits half a minute for a lease: values that are seconds wide are still wide enough for a slow machine.
SHORTER: dict[str, dict[str, Any]] = {
    "routing.services.workers": {"LEASE_S": 5, "MARGIN_S": 2, "RESTART_GRACE_S": 5, "STEADY_S": 5.0},
    "routing.engine.keeper": {"RENEW_S": 1.0, "SWEEP_S": 1.0},
}
LEASES_S: dict[str, tuple[str, float]] = {
    "callbacks.services": ("LEASE", 8.0),
    "routing.services.polls": ("LEASE", 8.0),
    "routing.services.receipt": ("RECEIPT_WITHIN", 8.0),
}


def at(point: str, doing: tuple[Any, ...]) -> None:
    """Die here, if somebody asked for it."""
    for file in _armed(point):
        with suppress(OSError):
            words = file.read_text("utf-8").split()
            text = repr(doing)
            if any(word in text for word in words):
                file.rename(file.with_suffix(".died"))
                os._exit(137)


def _armed(point: str) -> Iterator[Path]:
    with suppress(OSError):
        yield from [Path(entry.path) for entry in os.scandir(PLACE / point) if not entry.name.endswith(".died")]


def wrapped(function: Callable[..., Any], before: str | None, after: str | None) -> Callable[..., Any]:
    if before and before.endswith(".during"):
        return _watched(function, before)
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def later(*given: Any, **more: Any) -> Any:
            made = await function(*given, **more)
            at(after or "", (given, more, made))
            return made

        return later

    @wraps(function)
    def now(*given: Any, **more: Any) -> Any:
        if before:
            at(before, (given, more))
        made = function(*given, **more)
        if after and made is not False and made != []:  # nothing was claimed, leased or ended
            at(after, (given, more, made))
        return made

    return now


def _watched(function: Callable[..., Any], point: str) -> Callable[..., Any]:
    @wraps(function)
    async def send(*given: Any, **more: Any) -> Any:
        async def look() -> None:
            while True:
                at(point, (given, more))
                await asyncio.sleep(0.02)

        looking = asyncio.ensure_future(look())
        try:
            return await function(*given, **more)
        finally:
            looking.cancel()

    return send


def change(module: ModuleType) -> None:
    for name, value in SHORTER.get(module.__name__, {}).items():
        assert hasattr(module, name)
        setattr(module, name, value)
    if module.__name__ in LEASES_S:
        name, seconds = LEASES_S[module.__name__]
        setattr(module, name, type(getattr(module, name))(seconds=seconds))
    for path, before, after in POINTS.get(module.__name__, []):
        owner: Any = module
        *outer, name = path.split(".")
        for part in outer:
            owner = getattr(owner, part)
        setattr(owner, name, wrapped(getattr(owner, name), before, after))


class Changing(importlib.abc.MetaPathFinder):
    """Lets the others find a module, and changes it once it is loaded."""

    def __init__(self) -> None:
        self._asking = False

    @contextmanager
    def _aside(self) -> Iterator[None]:
        self._asking = True
        yield
        self._asking = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if self._asking or name not in {*POINTS, *SHORTER, *LEASES_S}:
            return None
        with self._aside():
            spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def load_and_change(module: ModuleType) -> None:
            load(module)
            change(module)

        spec.loader.exec_module = load_and_change  # type: ignore[method-assign]
        return spec


if PLACE.is_dir():
    sys.meta_path.insert(0, Changing())
