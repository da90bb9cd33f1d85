"""A campaign for strangers: verdicts as a gate, a bundle, renders. docs/how-to/publish.md."""
