"""The worker: runs a model in this process and takes its requests from a router.

`EngineHost` is a loaded model with its engine and step loop; `RouterLink` connects one to a router;
`WorkerProcess` is both as a program. `Supervisor` keeps a router and several workers running.
Nothing here imports torch before a model is loaded.
"""
