"""Training of heads: small models that guess what a target answers next."""
