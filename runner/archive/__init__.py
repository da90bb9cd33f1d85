"""Archives of campaigns, redaction, logs from elsewhere, experiment trackers."""
