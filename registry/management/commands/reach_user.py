"""Makes an account from the shell, or changes its role."""

import json
import re
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from common.clock import now
from registry.bodies import USER_NAME
from registry.models import Membership
from registry.services import users


class Command(BaseCommand):
    help = (
        "Make an account that can log in, or change its role, and print it as JSON; a new password is shown this once."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--role", required=True, choices=Membership.Role.values)
        parser.add_argument("--team", default="", help="an owner's team, as manifests name it in spec.owner")
        parser.add_argument("--namespace", action="append", help="may be repeated; default: all")
        parser.add_argument("--password", help="default: a new one")

    def handle(self, *args: Any, **options: Any) -> None:
        if not re.fullmatch(USER_NAME, options["name"]):
            raise CommandError("a user name has 1 to 150 letters, digits and . _ @ + -")
        member = users.put(
            options["name"],
            role=options["role"],
            team=options["team"],
            namespaces=options["namespace"],
            password=options["password"],
            actor="shell",
            now=now(),
        )
        self.stdout.write(json.dumps({
            "user": member.user, "role": member.role, "team": member.team, "namespaces": member.namespaces,
            "password": member.password,
        }))  # fmt: skip
