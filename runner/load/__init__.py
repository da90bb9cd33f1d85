"""Read a campaign's folder as records: logs, samples, event files, environment."""
