"""Runs the whole platform on this machine."""

import os
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from reach_platform import setup
from reach_platform.embedded.place import PlaceError
from reach_platform.environment import unknown_names
from reach_platform.machine import Machine


class Command(BaseCommand):
    help = "Starts the servers, web, workers, beat and two sample agents, and keeps them running until Ctrl-C."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._warn_of_typing_errors()
            agents = setup.children(settings.REACH_DATA_DIR, settings.REACH_PUBLIC_URL)
            with Machine(agents) as machine:
                if machine.wait_ready():
                    self._welcome(machine.notes)
                elif not machine.supervisor.signals:
                    self.stderr.write(f"Not ready yet: see {settings.REACH_PUBLIC_URL}/readyz and the lines above.")
                machine.supervisor.watch()
        except PlaceError as error:
            raise CommandError(str(error)) from None

    def _warn_of_typing_errors(self) -> None:
        for name in unknown_names(os.environ):
            self.stderr.write(f"{name} is set, but there is no such setting: see docs/settings.md.")

    def _welcome(self, notes: list[str]) -> None:
        base = settings.REACH_PUBLIC_URL
        lines = [
            f"Agent-Reach is ready: {base}",
            f"  console  {base}/console/",
            f"  admin    {base}/admin/",
            f"  API docs {base}/docs",
            f"  data     {settings.REACH_DATA_DIR}",
            *(f"  {note}" for note in notes),
            "Ctrl-C stops it.",
        ]
        self.stdout.write("\n".join(lines))
        self.stdout.flush()
