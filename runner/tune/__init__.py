"""Find the fastest setting of a training by racing real runs: `tune`. docs/how-to/tune.md."""
