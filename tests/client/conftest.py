"""The scripted server for all client tests."""

from tests.client.scripted import server, sleeps
from tests.client.scripted_admin import admin_server

__all__ = ["admin_server", "server", "sleeps"]
