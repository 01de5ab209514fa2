"""What the benches share: pairs of samples, prompts, rivals, the machine, result files."""
