"""Measurements on a machine with a GPU, in stages: `python -m bench.gpu.visit STAGE [--dry]`."""
