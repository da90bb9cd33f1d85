"""The live page of `bench --serve`: this machine alone, read only. docs/how-to/live-page.md."""
