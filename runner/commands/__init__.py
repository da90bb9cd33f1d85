"""A command each: its words, and what it prints; `__main__` has bench, collect and systems."""
