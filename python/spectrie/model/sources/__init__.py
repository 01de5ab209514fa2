"""Where models come from: built-in aliases, wheels, and what a user writes as MODEL."""
