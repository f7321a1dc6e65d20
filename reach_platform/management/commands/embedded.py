"""Runs only the embedded PostgreSQL and Redis, for development and for tests."""

import shlex
import signal
import threading
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from reach_platform.embedded.place import Place, PlaceError
from reach_platform.embedded.servers import Servers


class Command(BaseCommand):
    help = "Runs the embedded PostgreSQL and Redis until Ctrl-C."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--print-env", action="store_true", help="only print DATABASE_URL and REDIS_URL for a shell"
        )

    def handle(self, *args: Any, print_env: bool, **options: Any) -> None:
        try:
            place = Place.of(settings.REACH_DATA_DIR)
            if print_env:
                self._print_addresses(place)
                return
            stop = threading.Event()
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: stop.set())
            with Servers(settings.REACH_DATA_DIR):
                self._print_addresses(place)
                self.stdout.write("# ready; Ctrl-C stops both")
                self.stdout.flush()
                stop.wait()
        except PlaceError as error:
            raise CommandError(str(error)) from None

    def _print_addresses(self, place: Place) -> None:
        self.stdout.write(f"export DATABASE_URL={shlex.quote(place.database_url)}")
        self.stdout.write(f"export REDIS_URL={shlex.quote(place.redis_url)}")
