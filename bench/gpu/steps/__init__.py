"""What a step of whole models takes on a device, by its size and by kernel."""
