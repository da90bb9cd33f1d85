"""What Slurm 22.05.8 of Debian 12 printed, on two nodes of tests/cluster, shortened at `...`.

The programs ran in the environment of `clean_environment`. Job 8's comment was to be hostile.
"""

SQUEUE = """\
2|PENDING|debug||4294901758|1795346242|N/A|N/A|Resources|trainbench:def
3|PENDING|debug||4294901757|1795346242|1795349842|1795353442|BeginTime|trainbench:def
4|PENDING|debug||4294901756|1795346242|N/A|N/A|PartitionTimeLimit|trainbench:def
8|PENDING|debug||4294901753|1795346242|N/A|N/A|Priority|two
lines | JobState=COMPLETED
7|PENDING|debug||0|1795346242|N/A|N/A|JobHeldUser|trainbench:def
1|RUNNING|debug|node[1-2]|4294901759|1795346242|1795346242|1795349842|None|trainbench:abc
5|PENDING|down||4294901755|1795346242|N/A|N/A|PartitionDown|trainbench:def
6|FAILED|debug|node2|4294901754|1795346242|1795346245|1795346245|JobLaunchFailure|trainbench:def
"""

RUNNING = (
    "JobId=1 JobName=ok.sh UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=4294901759 Nice=0"
    " Account=(null) QOS=(null) JobState=RUNNING Reason=None Dependency=(null) Requeue=1 Restarts=0"
    " BatchFlag=1 Reboot=0 ExitCode=0:0 RunTime=00:00:02 TimeLimit=01:00:00 TimeMin=N/A"
    " SubmitTime=1795346242 EligibleTime=1795346242 AccrueTime=1795346242 StartTime=1795346242"
    " EndTime=1795349842 Deadline=N/A PreemptEligibleTime=1795346242 PreemptTime=None"
    " SuspendTime=None SecsPreSuspend=0 LastSchedEval=1795346242 Scheduler=Main Partition=debug"
    " AllocNode:Sid=node1:0 ReqNodeList=(null) ExcNodeList=(null) NodeList=node[1-2]"
    " BatchHost=node1 NumNodes=2 ... Command=/tmp/ok.sh WorkDir=/tmp Comment=trainbench:abc "
    " StdErr=/tmp/slurm-1.out StdIn=/dev/null StdOut=/tmp/slurm-1.out Power= \n"
)
HOSTILE_COMMENT = (
    "JobId=8 JobName=long.sh UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=4294901753"
    " Nice=0 Account=(null) QOS=(null) JobState=PENDING Reason=Priority Dependency=(null) Requeue=0"
    " Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0 RunTime=00:00:00 TimeLimit=01:00:00 TimeMin=N/A"
    " SubmitTime=1795346242 EligibleTime=1795346242 AccrueTime=1795346242 StartTime=Unknown"
    " EndTime=Unknown Deadline=N/A ... Partition=debug AllocNode:Sid=node1:0 ReqNodeList=(null)"
    " ExcNodeList=(null) NodeList= NumNodes=1 ... WorkDir=/tmp Comment=two\n"
    "lines | JobState=COMPLETED  StdErr=/tmp/slurm-8.out StdIn=/dev/null Power= \n"
)
NO_OUTPUT_FOLDER = (
    "JobId=6 JobName=long.sh UserId=root(0) GroupId=root(0) MCS_label=N/A ... JobState=FAILED"
    " Reason=JobLaunchFailure Dependency=(null) Requeue=0 Restarts=0 BatchFlag=1 Reboot=0"
    " ExitCode=0:53 RunTime=00:00:00 TimeLimit=01:00:00 TimeMin=N/A SubmitTime=1795346242"
    " EligibleTime=1795346242 AccrueTime=1795346242 StartTime=1795346245 EndTime=1795346245"
    " Deadline=N/A ... Partition=debug AllocNode:Sid=node1:0 ReqNodeList=(null) ExcNodeList=(null)"
    " NodeList=node2 BatchHost=node2 ... Comment=trainbench:def  StdErr=/nonexist/x/y.log Power= \n"
)

# sacct --completion, with jobcomp/filetxt and no database.
COMPLETED = """\
1|COMPLETED|0:0|1795346242|1795346245|node[1-2]
2|CANCELLED|0:0|1795346246|1795346249|node1
"""

# The same of one job that was preempted, requeued and then cancelled; of one preempted for good.
REQUEUED = """\
24|PREEMPTED|0:0|1795346646|1795346648|node[1-2]
24|CANCELLED|0:0|1795346649|1795346649|(null)
26|PREEMPTED|0:0|1795346651|1795346652|node[1-2]
"""
# Reasons of squeue's that are sentences: a drained node, a node that was asked for, an account.
SENTENCES = (
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
    "ReqNodeNotAvail, UnavailableNodes:node2",
    "Job's account not known, so it can't use this partition (debug allows zz)",
)
# scontrol's, as above: what ended each job, its reason and exit code.
ENDS = {
    "TIMEOUT": ("TimeLimit", "0:15"),
    "DEADLINE": ("DeadLine", "0:1"),
    "NODE_FAIL": ("NodeDown", "0:15"),
    "PREEMPTED": ("None", "0:15"),
    "CANCELLED": ("None", "0:15"),
    "FAILED": ("NonZeroExitCode", "3:0"),
}

INVALID_JOB = "slurm_load_jobs error: Invalid job id specified\n"
NO_ACCOUNTS = "Slurm accounting storage is disabled\n"
NO_CONTROLLER = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
NO_PARTITION = """\
sbatch: error: invalid partition specified: nope
allocation failure: Invalid partition name specified
"""
# With slurmdbd, and a QOS that allows one job.
FULL = """\
sbatch: error: QOSMaxSubmitJobPerUserLimit
sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit,\
 user's size and/or time limits)
"""
# sacct --allocations --duplicates, with slurmdbd: cancelled, failed, requeued and then cancelled.
ACCOUNTED = """\
1|CANCELLED by 20000|0:0|1795349347|1795349348|node2
2|FAILED|3:0|1795349348|1795349348|node2
3|REQUEUED|0:0|1795349348|1795349350|node2
3|CANCELLED by 20000|0:0|1795349352|1795349352|None assigned
"""
MPI = """\
MPI plugin types are...
\tpmix
\tnone
\tcray_shasta
\tpmi2
specific pmix plugin versions available: pmix_v4
"""

# squeue --states=NO_SUCH: "Valid job states include: ..."
STATES = (
    "PENDING,RUNNING,SUSPENDED,COMPLETED,CANCELLED,FAILED,TIMEOUT,NODE_FAIL,PREEMPTED,BOOT_FAIL,"
    "DEADLINE,OUT_OF_MEMORY,COMPLETING,CONFIGURING,RESIZING,RESV_DEL_HOLD,REQUEUED,REQUEUE_FED,"
    "REQUEUE_HOLD,REVOKED,SIGNALING,SPECIAL_EXIT,STAGE_OUT,STOPPED"
)
