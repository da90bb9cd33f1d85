"""The faults that a supervisor can cause, each with what it does."""

from node.causes import Cause

KILL_RANK, KILL_NODE, STOP, SLOW = "kill_rank", "kill_node", "stop", "slow"
NETWORK, DISK_FULL = "network", Cause.DISK_FULL.value  # the cause that it makes
POWER_OFF = "power_off"  # not among KINDS: no engine can switch a node on again
KINDS = {
    KILL_RANK: "SIGKILL to one process of the trainer",
    KILL_NODE: "SIGKILL to all that the run has on a node, its supervisor included",
    STOP: "SIGSTOP to one process of the trainer; SIGCONT after for_s, if that is given",
    SLOW: "SIGSTOP and SIGCONT by turns, so that one process is paused half of the time, for for_s",
    NETWORK: "the node and the run's other nodes do not reach each other, for for_s; ssh stays",
    DISK_FULL: "a large file fills the disk of the run's scratch folder, for for_s",
}
ENDING = (KILL_RANK, KILL_NODE)  # they end an attempt; so does STOP without for_s
# They reach beyond the run's own processes, so that the inventory must allow them for the node.
NODE_WIDE = (NETWORK, DISK_FULL)
OF_NODE = (KILL_NODE, *NODE_WIDE)  # the others are of one process
TIMED = (SLOW, NETWORK, DISK_FULL)  # they need for_s, after which they are undone
MAY_BE_TIMED = (*TIMED, STOP)  # the others have no length
