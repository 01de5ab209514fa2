"""What draft memory costs and holds at any size: tenants, tokens, contexts, files."""
