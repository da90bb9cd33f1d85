"""A campaign as one file, and back, without names on request; logs from elsewhere; trackers."""
