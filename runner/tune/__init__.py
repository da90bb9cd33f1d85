"""Plan a search for the fastest setting: predict, order, stop. docs/tuning.md. Pure."""
