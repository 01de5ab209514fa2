"""The runner, which computes the engine's steps; its loading, the ranks above 0, bigram tables."""
