"""Makes an operator's key from the shell: the first credential of a new installation."""

import json
from typing import Any

from django.core.management.base import BaseCommand

from common.clock import now
from registry.services import credentials, namespaces


class Command(BaseCommand):
    help = "Make an operator's key (and the namespace default) and print it as JSON, this once."

    def handle(self, *args: Any, **options: Any) -> None:
        at = now()
        namespaces.create("default", actor="shell", now=at)
        self.stdout.write(json.dumps(credentials.operator(actor="shell", now=at).document()))
