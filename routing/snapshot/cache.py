"""This process's snapshots, kept fresh by hints and by one query each `REACH_ROUTE_CACHE_MS`; scores each 5 s."""

import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable

from django.conf import settings
from django.db import close_old_connections, connection

from common import broadcast
from common.database import robust
from registry import selectors
from routing.snapshot import scores
from routing.snapshot.build import load
from routing.snapshot.model import Snapshot

log = logging.getLogger(__name__)

CHANNEL = "changes"
MIN_POLL_S = 0.1
LONGEST_LOOK_S = 5.0


class Cache:
    """Snapshots by namespace, each loaded when it is first asked for. Safe to use from any thread."""

    def __init__(self, load: Callable[[str], Snapshot] = load):
        self._load = robust(patience=5.0)(load)
        self._snapshots: dict[str, Snapshot] = {}
        self._loading: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._starting = threading.Lock()
        self._watcher: Watcher | None = None

    def current(self, namespace: str) -> Snapshot:
        """The snapshot at hand, at most about `poll_s()` old; read from the database only if there is none yet."""
        return self._snapshots.get(namespace) or self.at_least(namespace, 0)

    def at_least(self, namespace: str, version: int) -> Snapshot:
        """A snapshot that is not older than `version`; may read the database."""
        found = self._snapshots.get(namespace)
        if found is not None and found.version >= version:
            return found
        self._watch()  # subscribe first: a change between loading and subscribing would stay unheard
        with self._loading[namespace]:
            found = self._snapshots.get(namespace)
            if found is None or found.version < version:
                is_first = found is None
                found = self._snapshots[namespace] = self._load(namespace)
                if is_first and self._watcher is not None:
                    self._watcher.look_at_scores()
            return found

    def known_version(self, namespace: str) -> int | None:
        """The version of the snapshot at hand; None without one. Never reads the database."""
        found = self._snapshots.get(namespace)
        return found.version if found else None

    def forget(self, namespace: str) -> None:
        """The next use reads the database."""
        self._snapshots.pop(namespace, None)

    def refresh(self) -> None:
        """Reload what has changed; one query if nothing has."""
        if not self._snapshots:
            return
        versions = selectors.namespace_versions()
        for namespace, snapshot in list(self._snapshots.items()):
            newest = versions.get(namespace)
            if newest is None:
                self.forget(namespace)
            elif newest > snapshot.version:
                self.at_least(namespace, newest)

    def refresh_scores(self) -> None:
        """Refill how the instances of all snapshots at hand answer."""
        scores.refresh(list(self._snapshots.values()))

    def close(self) -> None:
        """Know nothing, and leave the database alone until the next use."""
        with self._starting:
            watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.stop()
        self._snapshots.clear()

    def is_old(self, namespace: object, version: object) -> bool:
        snapshot = self._snapshots.get(namespace) if isinstance(namespace, str) else None
        return snapshot is not None and isinstance(version, int) and version > snapshot.version

    def _watch(self) -> None:
        if self._watcher is None:
            with self._starting:
                if self._watcher is None:
                    self._watcher = Watcher(self)
                    self._watcher.start()


class Watcher(threading.Thread):
    """Refreshes a cache each `REACH_ROUTE_CACHE_MS`, and at once when a hint says that something changed."""

    def __init__(self, cache: Cache):
        super().__init__(name="snapshots", daemon=True)
        self._cache = cache
        self._look = threading.Event()
        self._stopping = threading.Event()
        self._scores_due = 0.0

    def run(self) -> None:
        listener = broadcast.Listener([CHANNEL], self._heard, self._look.set)
        listener.start()
        while not self._stopping.is_set():
            self._look.wait(poll_s())
            self._look.clear()
            if not self._stopping.is_set():
                self._refresh()
        listener.stop()
        connection.close()

    def look_at_scores(self) -> None:
        """Read scores now, since there is a namespace that none were read for."""
        self._scores_due = 0.0
        self._look.set()

    def stop(self) -> None:
        """End it; a look that is under way is finished first."""
        self._stopping.set()
        self._look.set()
        self.join(LONGEST_LOOK_S)

    def _refresh(self) -> None:
        try:
            close_old_connections()
            self._cache.refresh()
            if time.monotonic() >= self._scores_due:
                self._scores_due = time.monotonic() + scores.EACH_S
                self._cache.refresh_scores()
        except Exception as problem:  # the snapshots at hand serve on
            log.warning("snapshots are not refreshed: %s", problem)
            connection.close()

    def _heard(self, _channel: str, message: object) -> None:
        if isinstance(message, dict) and self._cache.is_old(message.get("namespace"), message.get("version")):
            self._look.set()


def poll_s() -> float:
    """Seconds between two looks for changes."""
    return max(settings.REACH_ROUTE_CACHE_MS / 1000, MIN_POLL_S)


_cache = Cache()


def _renew_after_fork() -> None:
    """A forked child has no watcher, and perhaps a lock that nobody will release."""
    global _cache
    _cache = Cache()


os.register_at_fork(after_in_child=_renew_after_fork)


def current(namespace: str) -> Snapshot:
    """This process's snapshot of the namespace, at most about `poll_s()` old."""
    return _cache.current(namespace)


def at_least(namespace: str, version: int) -> Snapshot:
    """A snapshot that is not older than `version`, read anew if need be."""
    return _cache.at_least(namespace, version)


def known_version(namespace: str) -> int | None:
    """The version of this process's snapshot of the namespace, if it has one."""
    return _cache.known_version(namespace)


def forget(namespace: str) -> None:
    """Read the namespace anew at its next use."""
    _cache.forget(namespace)


def close() -> None:
    """Stop watching for changes, and know no namespace, until the next use."""
    _cache.close()
