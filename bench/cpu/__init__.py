"""The CPU path against its rivals and against the machine's limit; `make bench-cpu`."""
