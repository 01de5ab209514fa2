"""Supervision: keeps a router and several workers running, and reports when they are ready."""
