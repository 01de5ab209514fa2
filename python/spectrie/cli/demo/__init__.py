"""`spectrie demo`: prompts with speculation off and on, side by side."""
