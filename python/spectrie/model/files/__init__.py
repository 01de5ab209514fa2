"""Files of models on disk: checkpoints, the cache folder and what is kept in it."""
