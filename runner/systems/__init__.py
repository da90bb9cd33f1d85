"""The systems, one file each. What several of them share is in `common`."""
