"""Archives of campaigns, redaction, logs from elsewhere."""
