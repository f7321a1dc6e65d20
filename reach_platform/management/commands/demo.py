"""Shows one real task from end to end."""

from typing import Any

from django.core.management.base import BaseCommand

from reach_platform import demo


class Command(BaseCommand):
    help = "Starts a platform of its own with two sample agents, takes a real ticket through it, shows it, and stops."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        demo.start()
