"""Prepare a campaign for publication: checks, bundle, renders. docs/how-to/publish.md."""
