"""The engine over Ansible's connections: plays, one bench a cluster."""
