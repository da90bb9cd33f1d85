"""Whole commands on real Slurm: a login node, compute nodes and a folder that all share."""
