"""The engine over Ansible's connections: plays, inspection, one bench a cluster."""
