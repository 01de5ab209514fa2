"""Two hundred tenants, three of them hostile: what the others notice."""
