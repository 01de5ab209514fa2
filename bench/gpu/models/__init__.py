"""The sizes of models, and models and rows made from them."""
