"""A real PostgreSQL and Redis for every test run: those of the environment, else embedded ones of the run's own."""

import os
import tempfile
from pathlib import Path

import pytest

from reach_platform.embedded.servers import Servers

os.environ["DJANGO_SETTINGS_MODULE"] = "reach_platform.settings"


class EmbeddedServers:
    """Started once, before the workers of pytest-xdist, which find the addresses in their environment."""

    def __init__(self) -> None:
        self.home = tempfile.TemporaryDirectory(prefix="reach-test-", ignore_cleanup_errors=True)
        os.environ["REACH_DATA_DIR"] = self.home.name
        self.servers = Servers(Path(self.home.name))
        os.environ["DATABASE_URL"] = self.servers.place.database_url
        os.environ["REDIS_URL"] = self.servers.place.redis_url

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        self.servers.__enter__()

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        self.servers.__exit__()
        self.servers.remove()
        self.home.cleanup()


EMBEDDED = None if "DATABASE_URL" in os.environ or "REDIS_URL" in os.environ else EmbeddedServers()

from django.conf import settings  # noqa: E402 - the addresses must be in the environment first

settings.DATABASES  # noqa: B018 - pytest-django sets Django up only if the settings were read by now


def pytest_configure(config: pytest.Config) -> None:
    if EMBEDDED:
        config.pluginmanager.register(EMBEDDED, "embedded-servers")
