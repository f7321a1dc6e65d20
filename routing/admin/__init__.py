"""The admin of routing: routes are edited here and their traffic is moved; tasks and processes are only looked at."""

from routing.admin import routes, running

__all__ = ["routes", "running"]
