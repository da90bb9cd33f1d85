"""The report while bench runs: rewritten after each run, and served to this machine on request."""
