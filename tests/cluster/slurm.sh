#!/bin/sh
# Start Slurm's daemons in a test node, each that does not run: slurm.sh MUNGE_KEY DAEMON...
# The files of /etc/slurm are there already; every daemon detaches by itself.
set -eu
key=$1
shift
# slurmd ends where it finds control groups of systemd half there: show it none
if [ -d /sys/fs/cgroup ] && [ -n "$(ls /sys/fs/cgroup)" ]; then
  mount -n -t tmpfs none /sys/fs/cgroup
fi
mkdir -p /run/munge /scratch /var/spool/slurmctld /var/spool/slurmd
chmod 1777 /scratch
for number in 0 1; do
  # no driver has the number: whoever opens it is told "no such device"
  [ -e "/dev/fakegpu$number" ] || mknod -m 666 "/dev/fakegpu$number" c 240 "$number"
done
for daemon; do
  if pidof "$daemon" >/dev/null; then continue; fi
  rm -f "/run/$daemon.pid"
  case $daemon in
    munged)
      rm -f /run/munge/munge.socket.2*
      munged --key-file="$key" --log-file=/var/log/munged.log --seed-file=/run/munged.seed \
        --pid-file=/run/munged.pid
      ;;
    *) "$daemon" ;;
  esac
done
