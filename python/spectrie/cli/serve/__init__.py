"""`spectrie serve`."""
