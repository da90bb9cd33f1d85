"""A campaign's folder to records: how each run ended and why, and what it measured. Reads only."""
