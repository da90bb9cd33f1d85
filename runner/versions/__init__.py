"""Find the version that made training slower: `ci`, `bisect`. docs/how-to/ci.md."""
