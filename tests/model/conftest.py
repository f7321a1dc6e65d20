from tests.routing.services.conftest import _committed, _own_redis, database, database_made, world  # noqa: F401
