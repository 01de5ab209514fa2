"""Levels of a drafter: checked and packed, recorded, and launched."""
