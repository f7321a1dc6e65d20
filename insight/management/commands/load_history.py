"""Fills a database with a made-up past, to see how it does with millions of tasks."""

import time
from contextlib import nullcontext
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from common.clock import now
from insight.services import history


class Command(BaseCommand):
    help = "Makes tasks of the past with all that belongs to them, in namespaces of their own that begin with history-."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--tasks", type=int, default=100_000, help="how many (100000); each has about six events")
        parser.add_argument("--days", type=int, default=14, help="over how many days until now (14)")
        parser.add_argument(
            "--open", type=int, default=0, help="how many of the last have not ended (0); workers would take them up"
        )
        parser.add_argument("--add", action="store_true", help="also to a database that holds tasks of others")

    def handle(self, *args: Any, tasks: int, days: int, open: int, add: bool, **options: Any) -> None:
        if not (tasks > 0 and 0 < days <= 3650 and 0 <= open <= tasks):
            raise CommandError("--tasks and --days are at least 1, --days at most 3650, and --open is among --tasks.")
        if not add and history.has_others():
            raise CommandError("This database holds tasks of others. With --add the made-up ones are put beside them.")
        began = time.monotonic()
        with history.without_indexes() if history.is_empty() else nullcontext():
            for made in history.load(tasks, days, open, now()):
                took = time.monotonic() - began
                left = took * (tasks - made) / made
                self._tell(f"{made:>12,} of {tasks:,} tasks, {made / took:,.0f}/s, {left:,.0f} s left")
            self._tell("making indexes")
        self._tell("tidying up")
        history.settle()
        self._tell(f"{tasks:,} tasks over {days} days in {time.monotonic() - began:,.0f} s")

    def _tell(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()
