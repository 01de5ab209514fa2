"""The decoder: in the compiled core on a CPU; in torch on a GPU, and as the reference."""
