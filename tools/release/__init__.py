"""Builds what a release consists of; `make release`."""
