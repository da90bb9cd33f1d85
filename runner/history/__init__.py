"""Follow cells over many campaigns: where and why figures changed."""
