"""The nouns: cell, cluster, run, record. Data alone; each other package speaks in them."""
