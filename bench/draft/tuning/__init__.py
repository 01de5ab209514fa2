"""How shipped weights and rivals' settings were chosen, over texts that no bench reports."""
