"""The engine as a part of a Celery worker: it starts before the consumer, so also while Redis is down."""

from typing import Any

from celery import bootsteps
from celery.exceptions import ImproperlyConfigured
from django.conf import settings

from routing.engine.loop import Engine, install

POOLS = ("thread", "solo")


class EngineStep(bootsteps.StartStopStep):
    """Refuses pools that cannot carry an event loop beside their jobs."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, worker: Any, **kwargs: Any):
        pool = worker.pool_cls if isinstance(worker.pool_cls, str) else worker.pool_cls.__module__
        if not any(name in pool for name in POOLS):
            raise ImproperlyConfigured(f"The dispatch engine runs beside the threads or solo pool, not {pool}.")
        self._engine: Engine | None = None
        super().__init__(worker, **kwargs)

    def start(self, worker: Any) -> None:
        self._engine = Engine()
        self._engine.start()
        install(self._engine)

    def stop(self, worker: Any) -> None:
        """Warm shutdown: what runs may finish, the rest goes back."""
        self._end(float(settings.REACH_DRAIN_SECONDS))

    def terminate(self, worker: Any) -> None:
        """Cold shutdown: everything goes back."""
        self._end(0.0)

    def _end(self, grace_s: float) -> None:
        if self._engine is not None:
            self._engine.stop(grace_s)
            self._engine = None
            install(None)
