"""The environment of Slurm's programs: the user's, without what would change a run or an answer."""

import os
import re
from collections.abc import Mapping

from node.supervisor.slurm_environment import SECRETS
from runner.base.errors import UserError

CLUSTERS = "SLURM_CLUSTERS"

# A site's modules and an allocation set some hundred of these: options in disguise
# (SBATCH_PARTITION), formats of what is printed (SQUEUE_FORMAT), and what a job was given.
_SLURMS = re.compile(
    r"(SLURM|SLURMD|SLURMCTLD|SLURMDBD|SBATCH|SRUN|SALLOC|SATTACH|SBCAST|SCANCEL|SCONTROL|SCRUN|"
    r"SQUEUE|SACCT|SACCTMGR|SINFO|SPRIO|SREPORT|SSHARE|SSTAT|STRIGGER|PMI|PMIX)_"
    r"|" + SECRETS
)
# Where the cluster is, and who one is there: without them another cluster answers, or none.
_WAY_THERE = frozenset(
    (
        *("SLURM_CONF", "SLURM_CONF_SERVER", CLUSTERS, "SLURM_WORKING_CLUSTER"),
        *("SLURM_JWT", "SLURM_SACK_SOCKET", "SLURM_SACK_KEY"),
    )
)


def clean_environment(
    secrets: Mapping[str, str], user: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment of each of Slurm's programs, from the user's own.

    Variables that Slurm's programs obey are left out, except the cluster's address. They print
    English, with times in seconds since 1970. `secrets` of cluster_env are put in under names of
    their own, which the supervisor on the node removes. Raises UserError for several clusters at
    once, whose jobs share numbers.
    """
    user = os.environ if user is None else user
    if "," in user.get(CLUSTERS, "") or user.get(CLUSTERS) == "all":
        raise UserError(
            f"{CLUSTERS} names several clusters, whose jobs may have the same id; set it to the one"
            " that this inventory is of"
        )
    passed_on = {k: v for k, v in user.items() if k in _WAY_THERE or not _SLURMS.match(k)}
    passed_on.pop("LANGUAGE", None)
    return {
        **passed_on,
        **{SECRETS + name: value for name, value in secrets.items()},
        "LC_ALL": "C",
        "SLURM_TIME_FORMAT": "%s",
    }
