"""Model files on disk: checkpoints, and the cache folder with its contents."""
