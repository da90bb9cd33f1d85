"""Many campaigns as a folder: an index page, and the report of each."""
