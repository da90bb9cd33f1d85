"""Is a speed normal, and what does it cost: reference speeds, prices. Pure, except their files."""
