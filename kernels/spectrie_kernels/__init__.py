"""Kernels for tree verification, each beside its plain-torch reference."""
