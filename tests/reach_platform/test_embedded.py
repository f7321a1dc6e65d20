import os
import signal
import stat
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
import redis

from reach_platform.embedded import place as place_module
from reach_platform.embedded.place import Place, PlaceError, kept_secret, remove_stale_homes
from reach_platform.embedded.postgres import EmbeddedPostgres, quick_recovery
from reach_platform.embedded.servers import Servers, lock_data_dir
from reach_platform.processes import AdoptedProcess, wait_for_end


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """A pair of servers beside those of the test run: two copies on one machine."""
    with Servers(tmp_path_factory.mktemp("s")) as running:
        yield running
    running.remove()


def shown(servers, setting):
    with psycopg.connect(servers.place.database_url) as connection:
        return connection.execute("SELECT current_setting(%s)", [setting]).fetchone()[0]


@pytest.mark.parametrize("setting", ["fsync", "synchronous_commit", "full_page_writes"])
def test_nothing_is_bought_with_durability(servers, setting):
    assert shown(servers, setting) == "on"


def test_postgresql_speaks_utf8_and_utc(servers):
    assert (shown(servers, "server_encoding"), shown(servers, "TimeZone")) == ("UTF8", "UTC")


def test_postgresql_listens_on_no_port(servers):
    assert shown(servers, "listen_addresses") == ""


def test_redis_answers_and_keeps_nothing_on_disk(servers):
    client = redis.Redis.from_url(servers.place.redis_url)
    assert client.ping()
    assert client.config_get("appendonly")["appendonly"] == "no"
    assert client.config_get("maxmemory-policy")["maxmemory-policy"] == "noeviction"


def test_directories_and_sockets_are_closed_to_others(servers):
    for path in (servers.place.pg_data, servers.place.run_dir):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE(servers.place.redis_socket.stat().st_mode) == 0o700


def test_each_server_can_be_found_by_the_data_directory(servers):
    mark = os.fsencode(servers.place.data_dir)
    for process in servers.processes():
        entry = Path(f"/proc/{process.pid}")
        assert mark in (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()


def test_a_server_that_still_runs_is_taken_over(servers):
    server = EmbeddedPostgres(servers.place)
    process = server.start()
    assert isinstance(process, AdoptedProcess)
    assert process.pid == servers.processes()[0].pid
    assert process.poll() is None


def test_a_data_directory_in_use_is_refused(servers):
    with pytest.raises(PlaceError, match=f"in use by process {os.getpid()}"):
        lock_data_dir(servers.place.data_dir)


def test_a_killed_postgresql_starts_again_with_its_data(tmp_path):
    with Servers(tmp_path) as running:
        with psycopg.connect(running.place.database_url) as connection:
            connection.execute("CREATE TABLE kept (n int)")
        process = running.processes()[0]
        process.send_signal(signal.SIGKILL)
        assert wait_for_end([process], 5, lambda: False)
        server = EmbeddedPostgres(running.place)
        again = server.start()
        server.wait_ready(again)
        with psycopg.connect(running.place.database_url) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
        again.send_signal(signal.SIGINT)
        assert wait_for_end([again], 10, lambda: False)
    running.remove()


@pytest.mark.parametrize(
    ("release", "settings"),
    [
        ("6.18.44", {"recovery_init_sync_method": "syncfs"}),
        ("5.8.0-generic", {"recovery_init_sync_method": "syncfs"}),
        ("5.7.19", {}),
        ("4.19", {}),
        ("odd", {}),
    ],
)
def test_a_crashed_server_syncs_the_whole_file_system_at_once_where_linux_tells_of_errors(
    monkeypatch, release, settings
):
    monkeypatch.setattr("os.uname", lambda: SimpleNamespace(release=release))
    assert quick_recovery() == settings


def test_programs_are_looked_through_again_only_after_a_failed_start(tmp_path, monkeypatch):
    looks = []
    (tmp_path / "postgres").touch()
    monkeypatch.setattr("reach_platform.embedded.postgres.postgres_programs", lambda **_: looks.append(1) or tmp_path)
    clock = iter([0.0, 0.0, 100.0, 100.0, 103.0, 103.0])
    monkeypatch.setattr("reach_platform.embedded.postgres.time.monotonic", lambda: next(clock))
    server = EmbeddedPostgres(Place.of(tmp_path))
    counted = []
    for _ in range(3):
        server.find_programs()
        counted.append(len(looks))
    assert counted == [1, 1, 2]


def test_a_path_too_long_for_a_socket_moves_the_home(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    deep = tmp_path / ("d" * 100)
    place = Place.of(deep)
    assert place.home.parent == place_module.MACHINE_DIR
    assert len(str(place.run_dir)) < 80


def test_a_socket_path_of_108_bytes_is_refused_with_its_length(tmp_path):
    room = 108 - len(str(tmp_path)) - len("/redis.sock") - 1
    place = Place(tmp_path / ("d" * room), tmp_path, "nobody")
    with pytest.raises(PlaceError, match="has 108 bytes and the system allows 107"):
        place.prepare()


def test_a_kept_secret_stays_and_is_closed_to_others(tmp_path):
    first = kept_secret(tmp_path / "k", lambda: "one")
    assert kept_secret(tmp_path / "k", lambda: "two") == first == "one"
    assert stat.S_IMODE((tmp_path / "k").stat().st_mode) == 0o600


def home_of(machine_dir, name, data_dir):
    home = machine_dir / f"agent-reach-{name}"
    home.mkdir()
    if data_dir:
        (home / "owner").write_text(f"{data_dir}\n{os.uname().nodename}\n")
    return home


def test_only_homes_with_our_marker_and_without_a_data_directory_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(place_module, "MACHINE_DIR", tmp_path)
    kept_data = tmp_path / "data"
    kept_data.mkdir()
    (kept_data / "id").write_text("aa")
    kept = home_of(tmp_path, "aa", kept_data)
    unmarked = home_of(tmp_path, "bb", None)
    gone = home_of(tmp_path, "cc", tmp_path / "gone")
    made_anew = home_of(tmp_path, "dd", kept_data)
    assert set(remove_stale_homes()) == {gone, made_anew}
    assert kept.exists()
    assert unmarked.exists()


def test_a_home_of_an_unmounted_disk_or_another_machine_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(place_module, "MACHINE_DIR", tmp_path)
    unmounted = home_of(tmp_path, "ee", tmp_path / "disk/project/.reach")
    elsewhere = home_of(tmp_path, "ff", tmp_path / "gone")
    (elsewhere / "owner").write_text(f"{tmp_path / 'gone'}\nanother-machine\n")
    assert remove_stale_homes() == []
    assert unmounted.exists()
    assert elsewhere.exists()
