"""Speculation on against off, whole requests with the real model."""
