"""`spectrie corpus`: corpora from files, and the readers of those files."""
