"""Mixtures of experts: their weights, and which rows an expert computes in a step."""
