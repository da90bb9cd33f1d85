"""Which version made it slower: pin sets of a matrix built, `ci`, `bisect`. docs/how-to/ci.md."""
