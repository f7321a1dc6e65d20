"""What the health rule promises for any sequence of evidence: found by playing sequences through it."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from registry.health import Call, Evidence, HealthSettings, Probe, judge
from registry.states import MOVES

START = 1_800_000_000.0
FIGURES = HealthSettings()
STATES = st.sampled_from(sorted(MOVES))
HAPPENING = st.tuples(
    st.sampled_from(["probe", "call", "beat", "nothing"]), st.booleans(), st.floats(0.1, 40), st.sampled_from("UT")
)
CODES = {"U": "UNREACHABLE", "T": "TIMEOUT"}


class Life:
    """One instance through time: collects what happens to it, and has it judged each time."""

    def __init__(self, state):
        self.at, self.state, self.since = START, state, START
        self.heard_at, self.good_since, self.complaint = START, START, ""
        self.beats, self.probes, self.calls, self.moves = [], [], [], []

    def happen(self, kind, good, after, code="T"):
        self.at += after
        if kind == "probe":
            self.probes = [*self.probes, Probe(self.at, good, 5.0, "", "p")][-20:]
        elif kind == "call":
            self.calls = [*self.calls, Call(self.at, good, 50.0, "" if good else CODES[code])][-200:]
        elif kind == "beat":
            self.heard_at, self.complaint = self.at, "" if good else "it reports degraded"
            self.good_since = (self.good_since or self.at) if good else None
            self.beats = [*self.beats, self.at][-10:] if good else []
        self.judge()

    def judge(self):
        evidence = Evidence(
            self.since, self.heard_at, self.good_since, self.complaint, tuple(self.beats), tuple(self.probes),
            tuple(self.calls),
        )  # fmt: skip
        verdict = judge(evidence, self.state, FIGURES, datetime.fromtimestamp(self.at, UTC))
        if verdict.state != self.state:
            assert verdict.reason
            self.moves.append((self.state, verdict.state))
            self.state, self.since = verdict.state, self.at


def lived(state, happenings):
    life = Life(state)
    for happening in happenings:
        life.happen(*happening)
    return life


@given(STATES, st.lists(HAPPENING, max_size=60))
def test_no_move_is_illegal_and_offline_leaves_only_to_new(state, happenings):
    for old, new in lived(state, happenings).moves:
        assert new in MOVES[old]
        assert old != "OFFLINE" or new == "NEW"


@given(STATES, st.lists(HAPPENING, max_size=40))
def test_the_same_evidence_a_second_time_moves_at_most_once_more(state, happenings):
    life = lived(state, happenings)
    life.judge()
    settled = life.state
    life.judge()
    assert life.state == settled or (settled, life.state) in {("OFFLINE", "NEW"), ("NEW", "DEGRADED")}


@given(
    st.sampled_from(["NEW", "ONLINE", "DEGRADED"]),
    st.sampled_from(["probe", "call", "beat"]),
    st.integers(0, 30),
    st.sampled_from("UT"),
)
def test_one_blip_never_takes_it_out(state, kind, when, code):
    calm = [("beat", True, 5.0), ("probe", True, 2.0), ("call", True, 3.0)] * 12
    life = lived(state, [*calm[:when], (kind, False, 1.0, code), *calm[when:]])
    assert "OFFLINE" not in {new for _, new in life.moves}
    assert len(life.moves) <= 3


@given(STATES, st.booleans(), st.floats(2, 29))
def test_alternating_probes_never_flap_it(state, first, every):
    life = Life(state)
    for number in range(60):
        life.happen("beat", True, min(every, 9.0))
        life.happen("probe", (number % 2 == 0) == first, every - min(every, 9.0))
    assert len(life.moves) <= 2
    assert life.state != "OFFLINE"


@given(st.floats(0.5, 20))
def test_who_only_fails_is_out_within_a_minute_of_traffic(every):
    life = Life("ONLINE")
    while life.at < START + 60:
        life.happen("beat", True, 0)
        life.happen("call", False, every)
    assert ("ONLINE", "OFFLINE") in life.moves or ("DEGRADED", "OFFLINE") in life.moves
