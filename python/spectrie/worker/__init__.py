"""The worker: runs a model in this process and takes its requests from a router.

`RouterLink` connects an `EngineHost` to a router; `WorkerProcess` is both as a program.
"""
