"""Steps of a model on a GPU: launched at once, waited for later."""
