"""The scripted server for all client tests."""

from tests.client.scripted import server, sleeps

__all__ = ["server", "sleeps"]
