"""The engine host: a loaded model with its engine, step loop and draft memory.

Nothing here imports torch before a model is loaded.
"""
