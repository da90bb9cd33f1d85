"""Does `accept` find the node that is wrong? Planted faults, clean nodes, simulated clusters.

`bed` brings up nodes for one acceptance and runs it; `plants` has the faults and how each is really
made; `simulated` judges many clusters made of the noise that clean acceptances recorded.
"""
