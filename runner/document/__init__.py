"""One campaign, read once: the document that every table, page and comparison is a view of.

campaign_document.CampaignDocument  the rows, the campaign's settings, each run's evidence
reading.read_campaign               an open campaign's folder -> its document
machine_document.to_json            its written form: `collect --format json`
"""
