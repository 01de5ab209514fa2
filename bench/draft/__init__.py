"""Drafting side by side: frozen traces, rivals from their own packages, one walk for all."""
