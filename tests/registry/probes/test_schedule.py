import pytest

from registry.probes.schedule import next_delay_s


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(0, 15), (1, 2), (2, 2), (3, 15), (4, 30), (5, 60), (6, 60), (500, 60)],
)
def test_sooner_after_a_first_failure_and_later_when_long_down(failures, seconds):
    assert next_delay_s(failures, 3, 15.0, lambda: 0.5) == pytest.approx(seconds)


@pytest.mark.parametrize(("rand", "seconds"), [(0.0, 12), (1.0, 18)])
def test_jitter_is_a_fifth_to_either_side(rand, seconds):
    assert next_delay_s(0, 3, 15.0, lambda: rand) == pytest.approx(seconds)


def test_a_long_interval_is_never_shortened_by_being_down():
    assert next_delay_s(9, 3, 300.0, lambda: 0.5) == pytest.approx(300)
    assert next_delay_s(1, 3, 1.0, lambda: 0.5) == pytest.approx(1)
