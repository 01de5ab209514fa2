"""The scripted server, for commands that talk to one."""

from tests.client.scripted import server
from tests.client.scripted_admin import admin_server

__all__ = ["admin_server", "server"]
