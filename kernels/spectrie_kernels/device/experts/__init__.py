"""Triton kernels for mixtures of experts."""
