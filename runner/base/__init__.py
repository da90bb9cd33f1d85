"""Used by every package: errors, suggestions, paths, locks."""
