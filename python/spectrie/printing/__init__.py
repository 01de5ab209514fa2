"""What a person reads of long work: progress and tables."""
