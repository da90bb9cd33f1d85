"""A board: bundles by pull request, checked against their own logs. docs/how-to/board.md."""
