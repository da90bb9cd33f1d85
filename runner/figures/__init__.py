"""Steps to figures: medians, spread, warm-up, parity, FLOPs, what a device can do. Pure."""
