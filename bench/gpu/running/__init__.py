"""How a stage is run: processes that may die, and a file that holds each result at once."""
