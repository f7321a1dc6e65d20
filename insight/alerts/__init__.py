"""Alerts: the conditions that are looked for, and the words for them."""
