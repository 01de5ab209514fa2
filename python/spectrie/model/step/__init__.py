"""What a step on a GPU is made of: its packed numbers, its arrays on the device, and the device."""
