"""Statements on Django's own connection that outlive a lost one."""

import threading

import pytest
from django.db import IntegrityError, OperationalError, connection, transaction

from common import database
from common.database import hot_cursor, robust

pytestmark = pytest.mark.django_db(transaction=True)


def lose_connection():
    """End this thread's session from a second one, as a restarting server does."""
    with hot_cursor() as cursor:
        pid = cursor.execute("SELECT pg_backend_pid()").fetchone()[0]

    def end():
        with hot_cursor() as other:
            other.execute("SELECT pg_terminate_backend(%s)", [pid])
        connection.close()

    thread = threading.Thread(target=end)
    thread.start()
    thread.join()
    return pid


def my_pid_after_a_loss():
    lose_connection()
    return my_pid()


def my_pid():
    with hot_cursor() as cursor:
        return cursor.execute("SELECT pg_backend_pid()").fetchone()[0]


def test_a_hot_cursor_binds_on_the_server_and_shares_djangos_transaction():
    with transaction.atomic(), hot_cursor() as cursor, connection.cursor() as django_cursor:
        assert cursor.execute("SELECT %s::int + 1", [41], prepare=True).fetchone() == (42,)
        django_cursor.execute("SELECT pg_current_xact_id()")
        assert cursor.execute("SELECT pg_current_xact_id()").fetchone() == django_cursor.fetchone()


def test_errors_of_a_hot_cursor_are_djangos():
    with pytest.raises(OperationalError), hot_cursor() as cursor:
        cursor.execute("SET statement_timeout = 1; SELECT pg_sleep(1)")
    connection.close()


def test_a_connection_that_was_lost_while_idle_is_replaced_before_its_next_use():
    """Case 49."""
    lost = lose_connection()
    assert my_pid() != lost


def test_a_connection_that_was_lost_while_idle_is_replaced_for_the_orm_too():
    lose_connection()
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)


def test_a_connection_that_is_lost_within_a_transaction_is_not_replaced_silently():
    with pytest.raises(OperationalError), transaction.atomic():
        my_pid_after_a_loss()


def test_a_statement_whose_connection_is_lost_under_it_is_repeated_on_a_new_one():
    lost = []

    @robust
    def ended_once():
        if not lost:
            lost.append(my_pid())
            with hot_cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return my_pid()

    assert ended_once() != lost[0]


def test_without_patience_or_inside_a_transaction_nothing_is_repeated():
    calls = []

    @robust
    def failing():
        calls.append(1)
        raise OperationalError("gone")

    with pytest.raises(OperationalError), transaction.atomic():
        failing()
    with pytest.raises(OperationalError):
        robust(patience=0)(failing.__wrapped__)()
    assert len(calls) == 2


def test_it_is_repeated_until_it_works(monkeypatch):
    waits, left = [], [1, 2, 3, 4, 5, 6]
    monkeypatch.setattr(database.time, "sleep", waits.append)

    @robust
    def flaky(value):
        if left:
            raise OperationalError(left.pop())
        return value

    assert flaky("done") == "done"
    assert waits == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]


def test_a_deadlock_is_repeated_on_the_same_connection():
    before, calls = my_pid(), []

    @robust
    def deadlocked():
        calls.append(1)
        if len(calls) == 1:
            with hot_cursor() as cursor:
                cursor.execute("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '40P01'; END $$")
        return my_pid()

    assert deadlocked() == before
    assert len(calls) == 2


def test_errors_of_the_statement_itself_are_not_repeated():
    calls = []

    @robust
    def wrong():
        calls.append(1)
        raise IntegrityError("twice")

    with pytest.raises(IntegrityError):
        wrong()
    assert len(calls) == 1
