"""Gives an agent a key from the shell."""

import json
import re
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from common.clock import now
from common.errors import ReachError
from registry.manifest_schema import AGENT_ID
from registry.services import credentials, namespaces


class Command(BaseCommand):
    help = "Give an agent a key (its namespace is made, if need be) and print it as JSON, this once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("namespace")
        parser.add_argument("agent")

    def handle(self, *args: Any, **options: Any) -> None:
        at, namespace, agent_id = now(), options["namespace"], options["agent"]
        if not re.fullmatch(AGENT_ID, agent_id):
            raise CommandError("an agent id has 1 to 128 letters, digits and . _ -, and begins with a letter or digit")
        try:
            namespaces.create(namespace, actor="shell", now=at)
            issued = credentials.for_agent(namespace, agent_id, actor="shell", now=at)
        except ReachError as error:
            raise CommandError(error.detail) from None
        self.stdout.write(json.dumps({"agentId": agent_id, "namespace": namespace, **issued.document()}))
