"""Which texts the code marks for translation, read from the code itself: no program of gettext is needed."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("registry", "routing", "callbacks", "insight", "reach_platform")
MARKS = {"_", "gettext", "gettext_lazy", "gettext_noop", "ngettext", "ngettext_lazy", "pgettext", "pgettext_lazy"}
_IN_TEMPLATE = re.compile(r"""{%\s*(?:translate|trans)\s+(["'])(.*?)\1""")


def marked_texts(base: Path) -> set[str]:
    """Every literal text that Python code passes to a gettext function, and that templates give to `translate`."""
    found = {text for package in PACKAGES for path in (base / package).rglob("*.py") for text in _in_python(path)}
    for path in (base / "templates").rglob("*.html"):
        found |= {match[2] for match in _IN_TEMPLATE.finditer(path.read_text("utf-8"))}
    return found - {""}


def _in_python(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and _name(node.func) in MARKS and node.args:
            text = node.args[1 if _name(node.func).startswith("pgettext") else 0]
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield text.value


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
