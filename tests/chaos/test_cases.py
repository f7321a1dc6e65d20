"""The table of docs/chaos.md names tests that exist."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
LINES = (TESTS.parent / "docs/chaos.md").read_text("utf-8").splitlines()
ROWS = [line for line in LINES if line.startswith("| ") and "`test_" in line]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_every_test_of_a_case_exists(row: str) -> None:
    code = ""
    for name in re.findall(r"`([\w/.]+)`", row.split("|")[3]):
        if name.endswith(".py"):
            code = (TESTS / name).read_text("utf-8")
        else:
            assert f"def {name}(" in code, name
