"""The faults that a supervisor can cause, each with what it does."""

KILL_RANK, KILL_NODE, STOP, SLOW = "kill_rank", "kill_node", "stop", "slow"
POWER_OFF = "power_off"  # not among KINDS: no engine can switch a node on again
KINDS = {
    KILL_RANK: "SIGKILL to one process of the trainer",
    KILL_NODE: "SIGKILL to all that the run has on a node, its supervisor included",
    STOP: "SIGSTOP to one process of the trainer; SIGCONT after for_s, if that is given",
    SLOW: "SIGSTOP and SIGCONT by turns, so that one process is paused half of the time, for for_s",
}
ENDING = (KILL_RANK, KILL_NODE)  # they end an attempt; so does STOP without for_s
