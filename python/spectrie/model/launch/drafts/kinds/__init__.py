"""How a drafter of each kind gets from tokens, and what they continue, to entries and states."""
