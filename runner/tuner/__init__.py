"""Run a search for the fastest setting on nodes. docs/how-to/tune.md."""
