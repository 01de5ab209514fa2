"""Sources of models: aliases, wheels, and the folder for what a user passes as MODEL."""
