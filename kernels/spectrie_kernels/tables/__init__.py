"""Tiles by device: `tile_table` reads the files beside it."""
