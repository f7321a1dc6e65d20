import os
import subprocess
import sys
import uuid

import pytest
from django.conf import settings

from reach_platform.embedded.servers import lock_data_dir
from tests.trips.world import Platform


@pytest.fixture
def on_a_given_redis():
    running = Platform(
        REDIS_URL=settings.REDIS_URL, REACH_REDIS_PREFIX=uuid.uuid4().hex, REACH_WORKERS="1", REACH_WEB_WORKERS="1"
    )
    yield running
    running.stop()


def test_a_second_start_on_the_same_data_says_who_holds_it_and_ends(tmp_path):
    environment = {k: v for k, v in os.environ.items() if k not in ("DATABASE_URL", "REDIS_URL")}
    with lock_data_dir(tmp_path):
        ended = subprocess.run(
            [sys.executable, "manage.py", "up"],
            cwd=settings.BASE_DIR,
            env={**environment, "REACH_DATA_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 1
    assert f"{tmp_path} is in use by process {os.getpid()}" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
def test_with_a_redis_given_only_postgresql_is_embedded(on_a_given_redis):
    assert not on_a_given_redis.processes("redis-server")
    assert on_a_given_redis.processes("postgres")
    assert on_a_given_redis.processes("celery", "worker")
