"""Supervision: keeps a router and several workers running, and tells when they are ready."""
