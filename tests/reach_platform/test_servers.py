from django.conf import settings
from django.db import connection


def test_the_test_run_has_a_real_postgresql(db):
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('server_version_num')::int")
        assert cursor.fetchone()[0] >= 140000
    assert settings.DATABASE_URL.startswith("postgres")
