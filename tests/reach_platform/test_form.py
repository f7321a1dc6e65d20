"""What `make check` looks at: form, types, imports, migrations, translations."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

PROGRAMS = Path(sys.executable).parent

CHECKS = {
    "ruff": [PROGRAMS / "ruff", "check", "."],
    "format": [PROGRAMS / "ruff", "format", "--check", "."],
    "types": [PROGRAMS / "mypy", "."],
    "imports": [PROGRAMS / "lint-imports"],
    "migrations": [sys.executable, "manage.py", "makemigrations", "--check", "--dry-run"],
    "translations": [sys.executable, "manage.py", "check_translations"],
}


@pytest.mark.parametrize("name", CHECKS)
def test_the_code_passes_the_check(name):
    ended = subprocess.run(
        CHECKS[name], cwd=settings.BASE_DIR, env=os.environ, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        pytest.fail(f"{ended.stdout}\n{ended.stderr}", pytrace=False)
