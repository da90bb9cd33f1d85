"""What a node is, as one JSON object: read here, compared on the control node. Writes no setting.

    facts.record:read     answer it

Its spec: root (TrainBench's folder on the node), addresses (the node's in the cluster),
interfaces (the values of NCCL_SOCKET_IFNAME and the like in cluster_env), write (also leave it as
<root>/env.json), time (what the control node measured of this node's clock). Runs as the user that
trains; needs no root.

A value that cannot be had is null, and never 0. A tool that is there and fails says so in its own
words (`problem`). Keys carry their units. docs/how-to/accept.md lists what is compared, and how.
"""
