"""Drafters beside a model on a GPU: entries that its steps write, and levels that are launched."""
