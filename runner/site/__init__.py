"""Many campaigns as a folder of pages that needs no server."""
