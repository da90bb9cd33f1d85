"""A cluster: what an inventory says of its nodes, read with ansible-inventory (no connection)."""
