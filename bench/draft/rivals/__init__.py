"""Other drafters, one file each, behind one interface; their code comes from their own packages."""
