import pytest

from benchmarks.measure import medians, percentile
from benchmarks.report import as_markdown, as_text, table


@pytest.mark.parametrize(("share", "expected"), [(50, 50), (99, 99), (100, 100), (1, 1)])
def test_a_percentile_is_a_value_that_was_measured(share: float, expected: float) -> None:
    assert percentile(range(100, 0, -1), share) == expected


def test_the_median_of_three_turns_ignores_one_bad_turn() -> None:
    assert medians([{"completed/s": 60.0}, {"completed/s": 5.0}, {"completed/s": 62.0}]) == {"completed/s": 60.0}


def test_the_table_gives_the_ratio_and_says_whether_the_bar_is_met() -> None:
    turns = {
        "agent-reach": [{"completed/s": 300.0, "accepted/s": 300.0}],
        "plain celery": [{"completed/s": 60.0, "accepted/s": 200.0}],
    }
    rows = {row[0]: row[1:] for row in table(turns)}
    assert rows["completed/s"] == ["300.0", "60.0", "5.00", "≥ 3 × met"]
    assert rows["accepted/s"] == ["300.0", "200.0", "1.50", "≥ 2 × MISSED"]


def test_a_time_over_its_bar_is_missed() -> None:
    rows = {row[0]: row[1:] for row in table({"agent-reach": [{"POST → agent p50 ms": 15.1}]})}
    assert rows["POST → agent p50 ms"] == ["15.1", "–", "≤ 15 MISSED"]


def test_one_system_alone_has_neither_ratio_nor_verdict() -> None:
    rows = {row[0]: row[1:] for row in table({"plain celery": [{"completed/s": 60.0}]})}
    assert rows["completed/s"] == ["60.0", "–", ""]


def test_text_and_markdown_show_every_row() -> None:
    rows = table({"plain celery": [{"completed/s": 60.0, "memory MiB": 300.0}]})
    assert len(as_text(rows).splitlines()) == 3
    assert as_markdown(rows).splitlines()[2].startswith("| completed/s | 60.0 |")
