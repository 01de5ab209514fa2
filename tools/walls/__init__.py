"""Reads which source file uses which, how long files are and how full folders: what holds the walls."""
