"""Knobs to the fastest setting, on real nodes: candidates, runs, answer. docs/how-to/tune.md."""
