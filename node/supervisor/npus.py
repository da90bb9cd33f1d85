"""Whether a run may have this node's NPUs, by what npu-smi says of processes on them."""

from __future__ import annotations

import time

from node import npu
from node.causes import Cause

from .answers import RefusedError
from .gpus import IDLE_PATIENCE_S, busy

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from .gpus import Who


def check_npus(wanted: list[str], who: Who) -> None:
    """Refuse NPUs that somebody uses. `wanted`: indices of chips, in npu-smi's order.

    One without npu-smi, or whose npu-smi fails, is not looked at: playbooks/npu.yml names those.
    """
    program = npu.program()
    until = time.monotonic() + IDLE_PATIENCE_S
    while program is not None:
        for index, pid, name in npu.users(npu.ask(program)[0]):
            if str(index) in wanted:
                fault = busy("NPU %d" % index, who(pid, name))
                break
        else:
            return
        if time.monotonic() > until:
            raise RefusedError(Cause.DEVICE_BUSY, fault)
        time.sleep(0.5)
