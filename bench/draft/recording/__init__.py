"""How the frozen traces were recorded; no bench runs this."""
