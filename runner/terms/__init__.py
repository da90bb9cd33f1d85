"""Data types of all packages: cell, cluster, run, record."""
