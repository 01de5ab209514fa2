"""The Triton forms, one kernel a file, named as its plain-torch reference."""
