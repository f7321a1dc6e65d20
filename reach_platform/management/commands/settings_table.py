"""Prints the table of settings for the documentation."""

from typing import Any

from django.core.management.base import BaseCommand

from reach_platform.environment import markdown_table


class Command(BaseCommand):
    help = "Prints every setting as a markdown table."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(markdown_table())
