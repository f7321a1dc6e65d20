"""Keys and secrets at rest."""

import pytest

from common import secrets


def test_a_secret_comes_back_and_does_not_show():
    box = secrets.encrypt("whsec_é")
    assert secrets.decrypt(box) == secrets.decrypt(memoryview(box)) == "whsec_é"
    assert b"whsec" not in box
    assert secrets.encrypt("whsec_é") != box


def test_a_secret_survives_a_new_key_while_the_old_one_is_listed(settings):
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "first" * 10, []
    box = secrets.encrypt("x")
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "second" * 10, ["first" * 10]
    assert secrets.decrypt(box) == "x"
    settings.SECRET_KEY_FALLBACKS = []
    with pytest.raises(ValueError, match="secret key"):
        secrets.decrypt(box)


@pytest.mark.parametrize("data", [b"", b"x", b"\xff" * 100])
def test_what_was_never_encrypted_is_refused(data):
    with pytest.raises(ValueError, match="secret key"):
        secrets.decrypt(data)


def test_keys_are_long_and_hashed():
    key = secrets.new_key("rk")
    assert key.startswith("rk_")
    assert len(key) >= 46
    assert secrets.hash_key("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert len(secrets.hash_key("\ud800")) == 64
