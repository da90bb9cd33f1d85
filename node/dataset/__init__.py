"""Datasets of Megatron's format: made, checked and taken away on a node."""
