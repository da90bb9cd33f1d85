"""A cell on a cluster to what each node runs, checked before anything starts. Pure."""
