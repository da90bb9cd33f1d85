#!/bin/sh
# Run a command inside a node: enter.sh CGROUP_PROCS PID COMMAND [ARGUMENT...]
# Joins the node's cgroup first (an empty CGROUP_PROCS skips that): nsenter does not, and a memory
# limit would not hold for the command.  The command dies with the caller, what it daemonised not.
set -eu
if [ -n "$1" ]; then echo 0 >"$1"; fi
pid=$2
shift 2
exec nsenter --target "$pid" --mount --uts --ipc --net --pid --cgroup --root -- \
    setpriv --pdeathsig KILL -- "$@"
