"""Does `accept` find the node that is wrong? Planted faults, clean nodes, simulated clusters.

`make acceptance` prints the tables of docs/reliability.md. `bed` brings up nodes for one acceptance
and runs it; `plants` has the faults and how each is really made; `simulated` judges many clusters
made of the noise that clean acceptances recorded; `ledger` keeps results, so that it goes on.
`killed` kills an acceptance in each of its stages, over ssh or on Slurm.
"""
