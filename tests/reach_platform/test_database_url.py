import pytest

from common.database import hot_cursor
from reach_platform.database_url import broker_url, django_database


def test_a_tcp_url_is_taken_apart():
    database = django_database("postgresql://me:p%40ss@db.example:5433/reach?sslmode=require")
    assert (database["HOST"], database["PORT"], database["NAME"]) == ("db.example", "5433", "reach")
    assert (database["USER"], database["PASSWORD"]) == ("me", "p@ss")
    assert database["OPTIONS"]["sslmode"] == "require"


def test_a_unix_socket_url_is_taken_apart():
    database = django_database("postgresql:///reach?host=/run/a%20b&user=me")
    assert (database["HOST"], database["NAME"], database["USER"]) == ("/run/a b", "reach", "me")


def test_a_parameter_of_the_url_wins_over_the_default():
    assert django_database("postgresql:///x?connect_timeout=9")["OPTIONS"]["connect_timeout"] == "9"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("redis://h:1/2", "redis://h:1/2"),
        ("unix:///a/redis.sock", "redis+socket:///a/redis.sock?virtual_host=0"),
        ("unix:///a/redis.sock?db=3", "redis+socket:///a/redis.sock?virtual_host=3"),
    ],
)
def test_celery_gets_the_address_in_its_own_words(given, wanted):
    assert broker_url(given) == wanted


def test_only_statements_that_ask_for_it_are_prepared(db):
    with hot_cursor() as cursor:
        cursor.execute("DEALLOCATE ALL")
        for _ in range(10):
            cursor.execute("SELECT 41")
        cursor.execute("SELECT 42", prepare=True)
        rows = cursor.execute("SELECT statement FROM pg_prepared_statements").fetchall()
    assert rows == [("SELECT 42",)]
