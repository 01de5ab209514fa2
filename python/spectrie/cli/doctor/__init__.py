"""`spectrie doctor`: checks of this machine."""
