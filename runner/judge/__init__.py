"""What a run's folder says of how it ended, and why. Reads files, writes none."""
