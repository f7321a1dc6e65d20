"""Breakers: an instance that keeps failing is left alone for a while (docs/breaker.md)."""

from routing.breaker.barring import NOBODY, barred, half_open, keys_of
from routing.breaker.rule import Key
from routing.breaker.showing import InstanceBreaker, Shown, of_agent
from routing.breaker.view import Breakers, number_of, view

__all__ = [
    "NOBODY",
    "Breakers",
    "InstanceBreaker",
    "Key",
    "Shown",
    "barred",
    "half_open",
    "keys_of",
    "number_of",
    "of_agent",
    "view",
]
