"""Machines to an inventory: named, asked over ssh, checked, written. What `init` does."""
