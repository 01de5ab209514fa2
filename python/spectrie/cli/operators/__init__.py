"""Commands that operate a running server through its operators' address."""
