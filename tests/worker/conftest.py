"""The scripted router and a worker that has joined it."""

from tests.worker.linked import folder, hub, worker

__all__ = ["folder", "hub", "worker"]
