"""The comparison as text, JSON and Markdown."""

import json
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from benchmarks.measure import Figures, medians

BARS = {  # figure: (kind, limit); a ratio is taken against plain celery
    "lost": ("at most", 0.0),
    "completed/s": ("ratio", 3.0),
    "accepted/s": ("ratio", 2.0),
    "POST → agent p50 ms": ("at most", 15.0),
    "POST → agent p99 ms": ("at most", 60.0),
    "answer → callback p50 ms": ("at most", 15.0),
    "answer → callback p99 ms": ("at most", 60.0),
}
SUBJECT, REFERENCE = "agent-reach", "plain celery"


def table(turns: dict[str, list[Figures]]) -> list[list[str]]:
    """Return rows of cells: figure, a median per system, the ratio of subject to reference, and its bar."""
    columns = {name: medians(figures) for name, figures in turns.items()}
    names = list(dict.fromkeys(name for figures in columns.values() for name in figures))
    rows = [["median of the turns", *columns, f"{SUBJECT} ÷ {REFERENCE}", "bar"]]
    for name in names:
        cells = [f"{figures[name]:.1f}" if name in figures else "–" for figures in columns.values()]
        rows.append([name, *cells, ratio(columns, name), verdict(columns, name)])
    return rows


def ratio(columns: dict[str, Figures], name: str) -> str:
    """Return the subject's figure over the reference's, or a dash when one is missing."""
    value, base = (columns.get(system, {}).get(name) for system in (SUBJECT, REFERENCE))
    return f"{value / base:.2f}" if value is not None and base else "–"


def verdict(columns: dict[str, Figures], name: str) -> str:
    """Return the figure's bar and whether it is met; empty without a bar."""
    if name not in BARS or SUBJECT not in columns or name not in columns[SUBJECT]:
        return ""
    kind, limit = BARS[name]
    value = columns[SUBJECT][name]
    if kind == "at most":
        return f"≤ {limit:.0f} {'met' if value <= limit else 'MISSED'}"
    base = columns.get(REFERENCE, {}).get(name)
    return f"≥ {limit:.0f} × {'met' if value >= limit * base else 'MISSED'}" if base else f"≥ {limit:.0f} ×"


def as_text(rows: list[list[str]]) -> str:
    """Return the rows as aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for name, *cells in rows:
        padded = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append("  ".join([name.ljust(widths[0]), *padded]).rstrip())
    return "\n".join(lines)


def as_markdown(rows: list[list[str]]) -> str:
    """Return the rows as a Markdown table."""
    head, *body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([head, "|---|" + "---:|" * (len(rows[0]) - 1), *body])


def save(directory: Path, turns: dict[str, list[Figures]], plan: Any) -> None:
    """Write bench.json (every turn) and bench.md (the table)."""
    directory.mkdir(parents=True, exist_ok=True)
    machine = {"cpus": psutil.cpu_count(), "memoryGiB": round(psutil.virtual_memory().total / 2**30, 1)}
    conditions = machine | {"python": platform.python_version(), "kernel": platform.release()}
    document = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": conditions,
        "phasesSeconds": vars(plan),
        "turns": turns,
    }
    (directory / "bench.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (directory / "bench.md").write_text(as_markdown(table(turns)) + "\n", encoding="utf-8")
