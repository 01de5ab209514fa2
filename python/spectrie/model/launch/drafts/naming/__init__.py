"""From a drafter's states to answers: the heads that name tokens."""
