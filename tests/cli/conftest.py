"""The scripted server, for commands that talk to one."""

from tests.client.scripted import server

__all__ = ["server"]
