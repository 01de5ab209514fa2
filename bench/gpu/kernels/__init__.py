"""What each kernel gives and takes on a device, beside its rivals."""
