import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from routing.services.gathered import Gathered


def test_a_lone_call_is_done_at_once():
    assert Gathered(lambda items: [item * 2 for item in items]).do(21) == 42


def test_what_comes_while_a_batch_is_under_way_makes_up_the_next():
    batches, first_begun, go_on = [], threading.Event(), threading.Event()

    def work(items):
        batches.append(sorted(items))
        first_begun.set()
        assert go_on.wait(5)
        return items

    gathered = Gathered(work)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(gathered.do, 0)
        assert first_begun.wait(5)
        rest = [pool.submit(gathered.do, number) for number in (1, 2, 3)]
        while len(gathered._waiting) < 3:
            threading.Event().wait(0.001)
        go_on.set()
        assert [first.result(5), *(one.result(5) for one in rest)] == [0, 1, 2, 3]
    assert batches == [[0], [1, 2, 3]]


def test_everyone_in_a_batch_hears_of_its_failure_and_the_next_call_works():
    fail = [True]

    def work(items):
        if fail[0]:
            raise ValueError("away")
        return items

    gathered = Gathered(work)
    with pytest.raises(ValueError, match="away"):
        gathered.do(1)
    fail[0] = False
    assert gathered.do(2) == 2


def test_a_thousand_calls_from_many_threads_each_get_their_own_result():
    gathered = Gathered(lambda items: [item + 1 for item in items], limit=3)
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(gathered.do, range(1000))) == list(range(1, 1001))
