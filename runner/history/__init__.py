"""Many campaigns: each cell over time, where it changed, and what changed there."""
