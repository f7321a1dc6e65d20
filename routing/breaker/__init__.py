"""Breakers: an instance that keeps failing is left alone for a while (docs/breaker.md)."""

from routing.breaker.barring import NOBODY, barred, half_open, keys_of
from routing.breaker.rule import Key
from routing.breaker.view import Breakers, number_of, shown, view

__all__ = ["NOBODY", "Breakers", "Key", "barred", "half_open", "keys_of", "number_of", "shown", "view"]
