"""Which keys the rows of a step see, in which order they are added, and who does it."""
