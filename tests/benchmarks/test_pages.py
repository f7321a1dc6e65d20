"""Pages in large tables: what they cost the database is told, and has a bound."""

import subprocess
import sys

import pytest

from tests.trips.world import ROOT


@pytest.mark.django_db
def test_the_statements_of_a_page_are_explained_the_hungriest_first():
    from benchmarks.page_queries import queries_of
    from tests.insight.rows import make_task
    from tests.insight.test_console import login

    person, task = login("support"), make_task("history-main")
    found = queries_of(lambda: person.get(f"/console/tasks/{task.id}/"))
    assert len(found) > 5
    assert [one.blocks for one in found] == sorted((one.blocks for one in found), reverse=True)
    assert found[0].blocks > 0
    assert any("routing_task" in one.sql and "Index Scan" in one.plan for one in found)


@pytest.mark.slow
def test_no_page_reads_much_of_a_large_table(tmp_path):
    command = [sys.executable, "-m", "benchmarks.pages", "--tasks", "300000", "--runs", "1", "--dir", str(tmp_path)]
    bounded = [*command, "--most-blocks", "60000"]
    done = subprocess.run(bounded, check=False, cwd=ROOT, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.count("\n| list") > 100
