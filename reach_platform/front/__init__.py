"""The web server's own part: bodies, streams and waits on the event loop, everything else to Django in threads."""
