"""A campaign as one file, and back; without names on request. Logs from elsewhere as one."""
