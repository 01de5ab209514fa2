"""The runner: computes the steps that the engine plans. Loading, ranks above 0, bigram tables."""
