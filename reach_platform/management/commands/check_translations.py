"""Says which texts have no translation, and writes what is translated where Django reads it."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from reach_platform.translatable import marked_texts


class Command(BaseCommand):
    help = "Fails when a catalogue lacks a text or a translation, has doubtful ones, or is not compiled."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--compile", action="store_true", help="write the compiled form of each catalogue")

    def handle(self, *args: Any, compile: bool, **options: Any) -> None:
        problems = []
        for catalogue in sorted(settings.BASE_DIR.glob("**/locale/*/LC_MESSAGES/*.po")):
            if ".venv" not in catalogue.parts:
                problems += self._problems(catalogue, compile)
        if problems:
            raise CommandError("\n".join(problems))

    def _problems(self, path: Path, compile: bool) -> list[str]:
        import polib  # a tool of development: not installed where the platform only runs

        name, compiled = path.relative_to(settings.BASE_DIR), path.with_suffix(".mo")
        catalogue = polib.pofile(str(path))
        problems = [f"{name}: not translated: {entry.msgid!r}" for entry in catalogue.untranslated_entries()]
        problems += [f"{name}: doubtful (fuzzy): {entry.msgid!r}" for entry in catalogue.fuzzy_entries()]
        known = {entry.msgid for entry in catalogue if not entry.obsolete}
        problems += [f"{name}: missing: {text!r}" for text in sorted(marked_texts(settings.BASE_DIR) - known)]
        if compile:
            catalogue.save_as_mofile(str(compiled))
        elif not compiled.exists() or compiled.read_bytes() != catalogue.to_binary():
            problems.append(f"{name}: compile it with manage.py check_translations --compile")
        return problems
