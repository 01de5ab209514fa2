"""Options and values of the command line, read together with environment and file."""
