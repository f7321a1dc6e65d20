import uuid

import pytest


@pytest.fixture
def namespace(db):
    from registry.models import Namespace  # pytest reads this file before Django is set up

    return Namespace.objects.create(name=f"n-{uuid.uuid4().hex[:12]}").name
