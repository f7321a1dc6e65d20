"""The support console: find a task, read its journey, act on it."""
