"""Two campaigns to verdicts: faster, slower, broke, vanished."""
