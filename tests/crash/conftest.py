import pytest

from tests.crash.suite import suite


@pytest.fixture(scope="module")
def crash():
    with suite() as one:
        yield one
