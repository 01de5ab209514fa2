"""Time that the router adds to each token, measured with a worker that has no model."""
