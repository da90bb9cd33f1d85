"""Is a speed normal: reference speeds. Pure, except their files."""
