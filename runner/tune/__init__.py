"""The fastest setting, found by racing runs: predicted, ordered, stopped. docs/tuning.md. Pure."""
