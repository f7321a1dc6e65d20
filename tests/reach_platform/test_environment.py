import subprocess
import sys
from dataclasses import fields

import pytest

from reach_platform import environment, health_settings
from reach_platform.environment import SettingsError, load
from registry.health import HealthSettings


def problems_of(environ):
    with pytest.raises(SettingsError) as caught:
        load(environ)
    return caught.value.problems


def test_an_empty_environment_gives_the_documented_defaults():
    values = load({})
    assert values["REACH_PORT"] == 8600
    assert values["REACH_DATA_DIR"] == ".reach"
    assert values["REACH_ROUTER_STRATEGY"] == "least_conn"
    assert values["DATABASE_URL"] is None


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("REACH_PORT", "eighty", "whole number"),
        ("REACH_PORT", "0", "from 1 to 65535"),
        ("REACH_WORKERS", "-1", "from 1 to 256"),
        ("REACH_LOG_LEVEL", "LOUD", "one of DEBUG"),
        ("REACH_OUTBOUND_ALLOW", "10.0.0.0/8,nonsense", "CIDR"),
        ("REACH_OUTBOUND_ALLOW", "10.0.0.1/8", "host bits"),
        ("REACH_ALLOWED_HOSTS", "http://a.example", "without scheme"),
        ("REACH_PUBLIC_URL", "ftp://a.example", "http://"),
        ("REACH_DEBUG", "maybe", "true or false"),
        ("REACH_REDIS_PREFIX", "a b", "letters"),
        ("REACH_ROUTER_STRATEGY", "best", "least_conn"),
        ("REACH_ENGINE_ROOM", "0", "from 1 to 100000"),
        ("REACH_HOOK_COMMANDS", "/usr/bin/tell", "JSON object by name"),
        ("REACH_HOOK_COMMANDS", '["tell"]', "JSON object by name"),
        ("REACH_HOOK_COMMANDS", '{"tell": "/usr/bin/tell"}', "'tell' must have a list of texts"),
        ("REACH_HOOK_COMMANDS", '{"tell": []}', "'tell' must have a list of texts"),
        ("REACH_PROBE_COMMANDS", '{"disk": ["df", 1]}', "'disk' must have a list of texts"),
        ("REACH_PROBE_COMMANDS", '{"a b": ["df"]}', "'a b' is no name"),
        ("REACH_PROBE_COMMANDS", '{"disk": ["df"], "disk": ["du"]}', "names something twice"),
        ("REACH_FUNCTIONS", '{"echo": "echo"}', "'echo' must have an import path"),
        ("REACH_FUNCTIONS", '{"echo": ["a.b:c"]}', "'echo' must have an import path"),
    ],
)
def test_nonsense_is_refused_with_name_value_and_reason(name, value, reason):
    (problem,) = problems_of({name: value})
    assert problem.startswith(f"{name}={value!r}: ")
    assert reason in problem


def test_every_wrong_setting_is_named_at_once():
    assert len(problems_of({"REACH_PORT": "x", "REACH_WORKERS": "y"})) == 2


def test_a_wrong_secret_is_not_shown():
    (problem,) = problems_of({"DATABASE_URL": "mysql://root:hunter2@db/x"})
    assert "hunter2" not in problem
    assert "postgresql://" in problem


def test_one_server_may_be_given_and_the_other_embedded():
    values = load({"REDIS_URL": "redis://localhost:6379/0"})
    assert values["DATABASE_URL"] is None


def test_an_empty_variable_counts_as_absent():
    assert load({"REACH_PORT": ""})["REACH_PORT"] == 8600


def test_the_environment_wins_over_the_file(tmp_path):
    file = tmp_path / "reach.yaml"
    file.write_text("REACH_PORT: 9000\nREACH_WORKERS: 5\nREACH_ALLOWED_HOSTS: [a.example, b.example]\n")
    values = load({"REACH_CONFIG": str(file), "REACH_PORT": "9001"})
    assert (values["REACH_PORT"], values["REACH_WORKERS"]) == (9001, 5)
    assert values["REACH_ALLOWED_HOSTS"] == ["a.example", "b.example"]


def test_commands_and_functions_have_names(tmp_path):
    file = tmp_path / "reach.yaml"
    file.write_text("REACH_FUNCTIONS: {echo: 'agents.echo:run'}\nREACH_PROBE_COMMANDS:\n  disk: [/bin/df, -P]\n")
    values = load({"REACH_CONFIG": str(file), "REACH_HOOK_COMMANDS": '{"tell": ["/usr/bin/tell", "it is down"]}'})
    assert values["REACH_FUNCTIONS"] == {"echo": "agents.echo:run"}
    assert values["REACH_PROBE_COMMANDS"] == {"disk": ["/bin/df", "-P"]}
    assert values["REACH_HOOK_COMMANDS"] == {"tell": ["/usr/bin/tell", "it is down"]}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("REACH_PROT: 1", "'REACH_PROT' is not a setting"),
        ("- 1", "must hold a mapping"),
        ("a: [", "cannot be read"),
        ("REACH_PORT: many", "whole number"),
    ],
)
def test_a_bad_file_is_refused(tmp_path, content, reason):
    file = tmp_path / "reach.yaml"
    file.write_text(content)
    assert any(reason in problem for problem in problems_of({"REACH_CONFIG": str(file)}))


def test_a_missing_file_is_refused(tmp_path):
    assert "cannot be read" in problems_of({"REACH_CONFIG": str(tmp_path / "none.yaml")})[0]


def test_the_start_ends_without_a_traceback(tmp_path):
    ended = subprocess.run(
        [sys.executable, "manage.py", "check"],
        env={"REACH_PORT": "nonsense", "REACH_DATA_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "REACH_PORT='nonsense'" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_name_that_nobody_knows_is_found():
    assert environment.unknown_names({"REACH_PROT": "1", "REACH_PORT": "1", "REACH_URL": "x"}) == ["REACH_PROT"]


def test_the_table_names_every_setting():
    table = environment.markdown_table()
    assert all(f"`{setting.name}`" in table for setting in environment.TABLE)


def test_django_knows_every_setting_by_its_name(settings):
    kept_apart = {"REACH_CONFIG", "REACH_SECRET_KEY", "REACH_ALLOWED_HOSTS", "REACH_DEBUG"}  # Django has its own names
    kept_apart |= {name for name, *_ in health_settings.rows()}  # together in REACH_HEALTH
    missing = [s.name for s in environment.TABLE if s.name not in kept_apart and not hasattr(settings, s.name)]
    assert missing == []


def test_every_figure_of_the_health_rule_is_a_setting_or_a_manifests():
    figures = health_settings.figures(environment.load({"REACH_HEALTH_LOST_AFTER_S": "45"}))
    own = {"sla_ms", "resources", "contract_since"}  # only a manifest says these
    assert {*figures, *own} == {field.name for field in fields(HealthSettings)}
    assert HealthSettings(**figures) == HealthSettings(lost_after_s=45)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("REACH_HEALTH_LOST_AFTER_S", "soon", "it must be a number from 5 to 3600"),
        ("REACH_HEALTH_FAILURE_SHARE", "nan", "it must be from 0 to 1"),
        ("REACH_HEALTH_PROBE_RETRIES", "2.5", "it must be a whole number from 1 to 100"),
    ],
)
def test_a_figure_that_makes_no_sense_is_refused(name, value, reason):
    assert problems_of({name: value}) == [f"{name}={value!r}: {reason}"]


def test_the_documentation_shows_the_table_as_it_is(settings):
    assert environment.markdown_table() in (settings.BASE_DIR / "docs/settings.md").read_text("utf-8")


def test_an_emptied_list_of_allowed_ranges_allows_nothing():
    assert load({"REACH_OUTBOUND_ALLOW": ""})["REACH_OUTBOUND_ALLOW"] == []
    assert load({})["REACH_OUTBOUND_ALLOW"] is None
