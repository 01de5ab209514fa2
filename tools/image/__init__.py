"""Builds the images of deploy/Dockerfile without Docker, and runs them; `make images`."""
