"""The kinds of input, each from its own module."""

from tests.fuzz.answers import Answers
from tests.fuzz.archives import Archives
from tests.fuzz.case import Target
from tests.fuzz.folders import Folders
from tests.fuzz.inventories import Inventories
from tests.fuzz.logs import Logs
from tests.fuzz.matrices import Matrices
from tests.fuzz.slurm import Slurm

TARGETS: tuple[Target, ...] = (
    *(Logs(), Answers(), Folders(), Archives(), Matrices(), Inventories(), Slurm()),
)
