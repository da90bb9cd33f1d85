"""Campaigns as one file: exports, publications (docs/how-to/publish.md), imports of logs."""
