"""Are the nodes alike, and as fast as each other? docs/doctor.md.

`items` reads what a node said of itself, `compare` finds the odd one, `table` shows it; `measured`
judges what the probe measured, `probing` launches it. `command` is the command line.
"""
