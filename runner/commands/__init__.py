"""A command each: its words, and what it prints."""
