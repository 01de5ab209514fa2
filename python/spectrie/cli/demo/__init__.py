"""`spectrie demo`: prompts with speculation off and on, and with a drafter, side by side."""
