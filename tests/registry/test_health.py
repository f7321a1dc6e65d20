"""The rule for instance states, as a table; its promises for any sequence are in test_health_promises.py."""

from datetime import UTC, datetime

import pytest

from registry.health import (
    RECEIVED,
    Call,
    Evidence,
    HealthSettings,
    Probe,
    complaint_of,
    health_factor,
    judge,
    settings_from,
)

AT = 1_800_000_000.0
NOW = datetime.fromtimestamp(AT, UTC)
FIGURES = HealthSettings()


def probes(*results, every=15.0):
    """The newest result last, a moment ago."""
    count = len(results)
    return tuple(Probe(AT - 1 - every * (count - 1 - n), ok, 5.0, "", "p") for n, ok in enumerate(results))


def calls(*results, every=1.0, ms=50.0, code="INTERNAL_ERROR", until=1.0):
    count = len(results)
    return tuple(Call(AT - until - every * (count - 1 - n), ok, ms, "" if ok else code) for n, ok in enumerate(results))


def beats(count):
    return tuple(AT - 10.0 * n for n in reversed(range(count)))


def known(since=600.0, **given):
    return Evidence(AT - since, **{"heard_at": AT - 1, "good_since": AT - since, **given})


def verdict(state, evidence, **figures):
    return judge(evidence, state, HealthSettings(**figures), NOW).state


GOOD, BAD = True, False


@pytest.mark.parametrize(
    ("state", "evidence", "expected"),
    [
        ("ONLINE", known(), "ONLINE"),
        ("ONLINE", known(left=True), "OFFLINE"),
        ("ONLINE", known(heard_at=AT - 29), "ONLINE"),
        ("ONLINE", known(heard_at=AT - 30), "OFFLINE"),
        ("ONLINE", known(heard_at=AT - 30, listens=False), "ONLINE"),
        ("ONLINE", known(heard_at=AT - 30, silence_counts=False), "ONLINE"),
        ("NEW", known(heard_at=AT - 30), "OFFLINE"),
        ("DEGRADED", known(heard_at=AT - 30), "OFFLINE"),
        ("ONLINE", known(probes=probes(GOOD, BAD, BAD)), "ONLINE"),
        ("ONLINE", known(probes=probes(BAD, BAD, BAD)), "OFFLINE"),
        ("ONLINE", known(probes=probes(BAD, BAD, GOOD, BAD, BAD)), "ONLINE"),
        ("ONLINE", known(probes=probes(BAD, BAD, BAD), suspect=True), "ONLINE"),
        ("ONLINE", known(probes=tuple(p._replace(at=p.at - 400) for p in probes(BAD, BAD, BAD))), "ONLINE"),
        ("NEW", known(since=5, probes=probes(BAD, BAD, BAD)), "NEW"),
    ],
)
def test_heartbeats_and_probes_take_it_out(state, evidence, expected):
    assert verdict(state, evidence) == expected


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (known(calls=calls(BAD, BAD, BAD, every=14)), "ONLINE"),
        (known(calls=calls(BAD, BAD, BAD, every=15)), "OFFLINE"),
        (known(calls=calls(BAD, BAD, every=40)), "ONLINE"),
        (known(calls=calls(BAD, BAD, GOOD, BAD, every=15)), "ONLINE"),
        (known(calls=calls(BAD, BAD, BAD, every=15, until=100)), "ONLINE"),
        (known(calls=calls(BAD, BAD, BAD, code="UNREACHABLE")), "OFFLINE"),
        (known(calls=calls(BAD, BAD, code="UNREACHABLE")), "ONLINE"),
        (known(calls=calls(BAD, BAD, BAD, code="UNREACHABLE", until=100)), "ONLINE"),
        (known(probes=probes(*[GOOD] * 9), calls=calls(BAD, BAD, BAD, every=15)), "OFFLINE"),
    ],
)
def test_failing_calls_take_it_out_however_fine_its_probes_are(evidence, expected):
    assert verdict("ONLINE", evidence) == expected


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (known(since=60, heard_at=AT - 61), "OFFLINE"),
        (known(since=60), "NEW"),
        (known(since=60, complaint="it reports db: down"), "NEW"),
        (known(since=60, listens=False, heard_at=None), "OFFLINE"),
        (known(since=60, listens=False, heard_at=None, probes=probes(GOOD)), "NEW"),
        (known(since=60, probes=probes(GOOD, BAD)), "OFFLINE"),
        (known(since=60, probes=probes(GOOD, BAD), suspect=True), "NEW"),
        (known(since=60, heard_at=AT - 61, probes=probes(GOOD)), "OFFLINE"),
        (known(since=29, calls=calls(BAD, BAD, BAD, until=29)), "OFFLINE"),
        (known(since=30, calls=calls(BAD, BAD, BAD, until=30)), "NEW"),
    ],
)
def test_it_comes_back_as_new_once_all_that_took_it_out_is_over(evidence, expected):
    assert verdict("OFFLINE", evidence) == expected


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (known(since=60, beats=beats(5)), "ONLINE"),
        (known(since=60, beats=beats(4)), "NEW"),
        (known(since=29.9, beats=beats(3), calls=calls(GOOD, GOOD)), "NEW"),
        (known(since=30, beats=beats(3), calls=calls(GOOD, GOOD)), "ONLINE"),
        (known(since=60, beats=beats(2), probes=probes(GOOD, GOOD, GOOD)), "ONLINE"),
        (known(since=60, beats=beats(4), probes=probes(GOOD, BAD)), "NEW"),
        (known(since=60, calls=calls(*[GOOD] * 20, BAD, *[GOOD] * 4)), "NEW"),
        (known(since=60, calls=calls(*[GOOD] * 20, BAD, *[GOOD] * 5)), "ONLINE"),
        (known(since=60, complaint="it reports degraded"), "DEGRADED"),
        (known(since=60, beats=beats(6), calls=calls(*[BAD] * 4, *[GOOD] * 6)), "NEW"),
    ],
)
def test_a_new_one_proves_itself(evidence, expected):
    assert verdict("NEW", evidence) == expected


@pytest.mark.parametrize(
    ("evidence", "figures", "expected"),
    [
        (known(complaint="it reports db: down"), {}, "DEGRADED"),
        (known(calls=calls(*[BAD] * 2, *[GOOD] * 8)), {}, "ONLINE"),
        (known(calls=calls(*[BAD] * 3, *[GOOD] * 7)), {}, "DEGRADED"),
        (known(calls=calls(*[BAD] * 3, *[GOOD] * 6)), {}, "ONLINE"),
        (known(calls=calls(*[BAD] * 3, *[GOOD] * 7, until=70)), {}, "ONLINE"),
        (known(calls=calls(*[GOOD] * 10, ms=301), baseline_ms=100), {}, "DEGRADED"),
        (known(calls=calls(*[GOOD] * 10, ms=300), baseline_ms=100), {}, "ONLINE"),
        (known(calls=calls(*[GOOD] * 9, ms=301), baseline_ms=100), {}, "ONLINE"),
        (known(calls=calls(*[GOOD] * 10, ms=5000)), {}, "ONLINE"),
        (known(calls=calls(*[GOOD] * 10, ms=99), baseline_ms=2), {}, "ONLINE"),
        (known(calls=calls(*[GOOD] * 10, ms=1001), baseline_ms=900), {"sla_ms": 1000}, "DEGRADED"),
        (known(calls=calls(*[GOOD] * 10, ms=1000), baseline_ms=10), {"sla_ms": 1000}, "ONLINE"),
    ],
)
def test_slow_failing_or_complaining_means_degraded(evidence, figures, expected):
    assert verdict("ONLINE", evidence, **figures) == expected


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (known(since=60), "ONLINE"),
        (known(since=59), "DEGRADED"),
        (known(good_since=AT - 59), "DEGRADED"),
        (known(good_since=None, complaint="it reports degraded"), "DEGRADED"),
        (known(calls=calls(*[BAD] * 2, *[GOOD] * 12)), "DEGRADED"),
        (known(calls=calls(*[BAD] * 1, *[GOOD] * 13)), "ONLINE"),
        (known(calls=calls(BAD, GOOD)), "DEGRADED"),
        (known(calls=calls(*[GOOD] * 10, ms=201), baseline_ms=100), "DEGRADED"),
        (known(calls=calls(*[GOOD] * 10, ms=200), baseline_ms=100), "ONLINE"),
    ],
)
def test_well_again_needs_a_minute_clearly_below_the_limits(evidence, expected):
    assert verdict("DEGRADED", evidence) == expected


def test_reasons_name_the_evidence():
    failing = tuple(p._replace(reason="status 503") for p in probes(BAD, BAD, BAD))
    assert (
        judge(known(probes=failing), "ONLINE", FIGURES, NOW).reason == "3 failed probes in a row, the last: status 503"
    )
    ejected = judge(known(calls=calls(BAD, BAD, BAD, every=20, code="TIMEOUT")), "ONLINE", FIGURES, NOW)
    assert ejected.reason == "ejected: nothing but failed calls for 41 s (3, the last: TIMEOUT)"


def test_the_manifest_sets_what_is_its_owners():
    spec = {
        "probe": {"retries": 5},
        "limits": {"latencyCeilingMs": 60_000},
        "resources": {"gpuFree": {"degradedBelow": 1}},
        "capabilities": [{"latencySlaMs": 200}, {"latencySlaMs": 900}],
    }
    own = settings_from(spec, FIGURES)
    assert (own.probe_retries, own.latency_ceiling_ms, own.sla_ms) == (5, 60_000, 900)
    assert own.resources == {"gpuFree": {"degradedBelow": 1}}
    assert settings_from({"capabilities": [{"latencySlaMs": 200}, {}]}, FIGURES) == FIGURES


@pytest.mark.parametrize(
    ("heartbeat", "complaint"),
    [
        ({}, ""),
        ({"status": "ok", "components": {"db": "ok"}}, ""),
        ({"status": "draining"}, ""),
        ({"status": "degraded"}, "it reports degraded"),
        (
            {"status": "ok", "components": {"gpu": "degraded", "db": "down", "a": "ok"}},
            "it reports db: down, gpu: degraded",
        ),
        ({"resources": {"gpu": 1, "load": 5}}, ""),
        ({"resources": {"gpu": 0.5, "load": 6}}, "it reports gpu below 1, load above 5"),
        ({"resources": {"gpu": None}}, ""),
    ],
)
def test_what_a_heartbeat_complains_of(heartbeat, complaint):
    assert complaint_of(heartbeat, {"gpu": {"degradedBelow": 1}, "load": {"degradedAbove": 5}}) == complaint


@pytest.mark.parametrize(
    ("state", "heartbeat", "factor"),
    [
        ("ONLINE", None, 1.0),
        ("ONLINE", {"components": {"db": "ok"}}, 1.0),
        ("ONLINE", {"components": {"db": "down"}}, 0.3),
        ("ONLINE", {"components": {"db": "down", "disk": "unreachable"}}, 0.0),
        ("DEGRADED", {"status": "degraded"}, 0.3),
        ("OFFLINE", {"status": "ok"}, 0.0),
    ],
)
def test_the_health_factor(state, heartbeat, factor):
    assert health_factor(state, heartbeat) == factor


def answers(fitting, misfits):
    """Answers of a quarter of an hour, the misfits spread among the rest."""
    count = fitting + misfits
    every = count // misfits if misfits else count + 1
    return tuple(
        Call(AT - 1 - 18.0 * (count - 1 - n), True, 50.0, "", fits=bool((n + 1) % every) or (n + 1) // every > misfits)
        for n in range(count)
    )


@pytest.mark.parametrize(
    ("state", "calls", "figures", "expected"),
    [
        ("ONLINE", answers(45, 5), {}, "ONLINE"),
        ("ONLINE", answers(44, 6), {}, "DEGRADED"),
        ("NEW", answers(44, 6), {}, "NEW"),
        ("ONLINE", answers(0, 5), {}, "ONLINE"),
        ("ONLINE", answers(44, 6) + answers(50, 0), {}, "ONLINE"),
        ("ONLINE", answers(44, 6), {"contract_since": AT - 300}, "ONLINE"),
        ("DEGRADED", answers(46, 4), {}, "DEGRADED"),
        ("DEGRADED", answers(47, 3), {}, "ONLINE"),
    ],
)
def test_answers_that_no_longer_fit_their_schema_degrade(state, calls, figures, expected):
    assert verdict(state, known(calls=calls), **figures) == expected


def test_a_drift_is_named_as_such():
    found = judge(known(calls=answers(40, 10)), "ONLINE", FIGURES, NOW)
    assert found.reason == "10 of its last 50 answers do not fit the declared output schema"


def received(*ats):
    return tuple(Call(at, True, None, RECEIVED) for at in ats)


def test_taking_work_is_no_success_while_all_of_it_fails():
    failed = calls(BAD, BAD, BAD, every=15, code="AGENT_FAILED")
    both = tuple(sorted(failed + received(AT - 40, AT - 20, AT - 2)))
    assert verdict("ONLINE", known(calls=both)) == "OFFLINE"
    assert verdict("NEW", known(since=60, calls=received(*(AT - n for n in range(9, 0, -1))))) == "NEW"


def test_who_takes_work_is_not_dead():
    three = calls(BAD, BAD, BAD, code="UNREACHABLE")
    assert verdict("ONLINE", known(calls=(*three[:2], *received(AT - 1.5), three[2]))) == "ONLINE"
