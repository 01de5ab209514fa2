"""The Triton kernels, one per file, each named like its plain-torch reference."""
