"""Run one node's part of a run, and end all of it.

    supervisor.preparation:prepare    check, write files, leave a daemon
    supervisor.polling:poll              start it, wait for news, renew the lease
    supervisor.polling:fetch             bring the part of a file that no poll brought
    supervisor.run_folder:close          all was brought: remove the folder, or keep it
    supervisor.inspection:inspect     what this node is
    supervisor.stopping:stop_all      end every run that this node holds

`prepare` leaves these modules, compiled too, beside all runs' folders (.programs), and links to
them in the run's own, modules.json, for what is asked afterwards. The folder also holds job.json
(0600), state.json, lease, go, stop, log, done.json and supervisor.log; who may read it is its owner
only.
Variables that are secret (the job's `secrets`) are in no file of it.
A job without argv starts nothing: another node's launcher starts this node's processes (deepspeed
does, over ssh). Its daemon waits until a poll says `--over`, and ends what carries the run's mark.
So does that of a job whose process only lets the launcher in (a container with an sshd). A job's
`after` runs once its processes have ended: it removes a container, whose own end may be lost.

What the daemon promises: nothing that the trainer started outlives it. It is the subreaper of its
children (daemonised ones come back to it) and puts a mark in their environment; it finds them by
descent and by mark, sends TERM, waits, sends KILL. It never signals a process that is
none of these. It ends the run when the launcher exits, when `stop` appears, at the time limit,
when the log outgrows its limit, and when nobody renewed the lease for as long as it holds, timed on
this node's monotonic clock. Beside the trainer it runs node/sampler.py (samples.csv), and before it
ends a run that stalled it asks every process for its stack.
"""
