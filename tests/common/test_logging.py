"""One line of JSON for each event."""

import io
import json
import logging
from types import SimpleNamespace

import pytest

from common.logging import JSONFormatter, current_trace_id, log_event


@pytest.fixture
def log():
    """A logger, and the lines that it wrote."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JSONFormatter())
    logger = logging.Logger("reach.test", logging.INFO)
    logger.addHandler(handler)
    logger.lines = lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    return logger


def test_an_event_has_the_agreed_members(log):
    log_event(log, "task.accepted", message="in", trace_id="t", task_id="i", agent_id="a", cost_ms=1.5, queueMs=3)
    (line,) = log.lines()
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "info",
        "event": "task.accepted",
        "traceId": "t",
        "taskId": "i",
        "agentId": "a",
        "costMs": 1.5,
        "queueMs": 3,
        "message": "in",
    }


def test_what_is_unknown_is_left_out_and_what_is_below_the_level_too(log):
    log_event(log, "a", level="warning")
    log_event(log, "b", level="debug")
    assert [(line["event"], line["level"], len(line)) for line in log.lines()] == [("a", "warning", 3)]


def test_plain_records_and_their_extras_become_lines(log):
    log.warning("lost %s\nlines", "two", extra={"traceId": "t"})
    (line,) = log.lines()
    assert (line["event"], line["message"], line["traceId"]) == ("reach.test", "lost two\nlines", "t")


def test_an_exception_gives_its_kind_and_first_line_and_place(log):
    try:
        raise ValueError("duplicate key\nDETAIL: Key (payload)=(secret)")
    except ValueError:
        log.exception("failed")
    (line,) = log.lines()
    assert line["error"] == "ValueError: duplicate key"
    assert "test_logging.py" in line["stack"][-1]
    assert "secret" not in json.dumps(line)


def test_odd_values_never_lose_a_line(log):
    """Cases 2 and 3."""
    log_event(log, "odd", text="\ud800\0", thing={1, 2}, number=float("nan"), nested={"a": object()})
    (line,) = log.lines()
    assert (line["event"], line["text"]) == ("odd", "\ufffd\ufffd")


def test_a_line_within_a_request_has_its_trace(log):
    before = current_trace_id.set("t1")
    log.warning("within")
    log.warning("its own", extra={"traceId": "t2"})
    current_trace_id.reset(before)
    log.warning("after", extra={"request": SimpleNamespace(trace_id="t3")})
    assert [(line["traceId"], "request" in line) for line in log.lines()] == [
        ("t1", False),
        ("t2", False),
        ("t3", False),
    ]
