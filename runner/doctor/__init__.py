"""Compare nodes and their speeds. docs/how-to/accept.md.

`items` reads what a node said of itself, `differences` finds the odd one, `table` shows it;
`judgement` judges what the probe measured, `probing` launches it.
"""
