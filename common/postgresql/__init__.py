"""Django's PostgreSQL backend, for connections that last."""
