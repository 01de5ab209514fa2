"""Recorded answers of a head: text alone, the head alone, both mixed, and what others make of the same answers."""
