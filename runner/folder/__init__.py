"""The campaign's folder: its files, its locks, its runs. docs/runs.md."""
