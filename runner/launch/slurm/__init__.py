"""The engine over Slurm: jobs and steps, and what Slurm says of them."""
