"""A campaign's folder to records: logs, samples, event files, environment."""
