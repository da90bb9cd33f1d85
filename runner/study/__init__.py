"""A study asks for the next runs, from what was measured, until it has an answer."""
