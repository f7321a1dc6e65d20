"""Telling owners of changes: what is told, how it is sent, and when it is tried again. No ORM, no transaction."""
