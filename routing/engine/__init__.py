"""The dispatch engine: one event loop a worker process, on a thread of its own, that holds every network call."""
