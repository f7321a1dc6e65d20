"""The callers' and agents' HTTP endpoints of tasks and routes: read, one service call, answer."""
