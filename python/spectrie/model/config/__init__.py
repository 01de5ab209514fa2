"""A model's configuration, read from Hugging Face's `config.json`."""
