"""Whether everything runs at all on a device: forms, tests and answers, little of each."""
