"""Inputs that nobody would write, by the hundred thousand: docs/reliability.md."""
