"""Makes a client from the shell."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from common.clock import now
from common.errors import ReachError
from registry import bodies
from registry.principal import CLIENT_SCOPES
from registry.services import clients, namespaces


class Command(BaseCommand):
    help = "Make a client (and its namespace, if need be) and print its credentials as JSON, this once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("namespace")
        parser.add_argument("name")
        parser.add_argument(
            "--scope", action="append", choices=CLIENT_SCOPES, help="may be repeated; default: the usual"
        )
        parser.add_argument(
            "--ability", action="append", help="glob of allowed abilities; may be repeated; default: all"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        at, actor = now(), "shell"
        for error in bodies.client.errors({"name": options["name"], "abilities": options["ability"] or []}):
            raise CommandError(f"{error['pointer'].removeprefix('/')} {error['message']}")
        try:
            namespaces.create(options["namespace"], actor=actor, now=at)
            made = clients.create(
                options["namespace"],
                options["name"],
                scopes=options["scope"],
                abilities=options["ability"],
                actor=actor,
                now=at,
            )
        except ReachError as error:
            raise CommandError(error.detail) from None
        self.stdout.write(json.dumps(made.document()))
