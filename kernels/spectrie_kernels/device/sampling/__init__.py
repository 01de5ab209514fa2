"""From logits to tokens: the likeliest, those drawn, and the walk along a tree."""
