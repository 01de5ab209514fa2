"""A real router with a scripted worker, and OpenAI's own client."""

from tests.http.server import client, scripted, url

__all__ = ["client", "scripted", "url"]
