"""Decide how a run ended and why, from its folder. Reads only."""
