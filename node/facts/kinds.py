"""What env.json holds, as the control node checks it; none of this is sent."""

from __future__ import annotations

from node.kinds import Line, having
from node.schema import Flag, List, Mapped, Maybe, Number, OneOf, Plain, Whole

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from node.schema import Fields, Kind

LINE, COUNT = Maybe(Line()), Maybe(Whole(-(2**63), 2**64))
SECONDS = Maybe(Number(-1e11, 1e11))
LINES = Mapped(Line(), LINE)


def some(kind: Kind, *names: str) -> dict[str, Kind]:
    """Return one kind for several names."""
    return dict.fromkeys(names, kind)


def tool(*names: str) -> Fields:
    """Return what a vendor's tool says of its devices; lines, by these names."""
    lines = some(LINE, "driver", "problem", *names)
    return having({}, {**lines, "devices": List(LINES, most=1024)})


PIN = having(
    {"torch": LINE},
    {
        "home": Line(),
        "identity": Plain(depth=16, lines=True),
        "lock_sha256": LINE,
        "lock": Maybe(Mapped(Line(), Line())),
    },
)
INTERFACE = having(
    {"carries": OneOf("cluster", "training")},
    {**some(COUNT, "mtu", "speed_mbit_s"), "addresses": List(Line(), most=1024)},
)
SYSTEM = having(
    {},
    {
        **some(LINE, "os", "kernel", "architecture", "boot_id", "transparent_hugepages"),
        **some(Mapped(Line(), COUNT), "settings", "limits"),
        "iommu": Maybe(Flag()),
    },
)
CPU = having(
    {},
    {
        **some(LINE, "model", "governor"),
        **some(COUNT, "sockets", "cores", "threads", "usable", "numa_nodes", "quota_percent"),
    },
)
MEMORY = having({}, some(COUNT, "total_mib", "swap_mib", "hugepages", "hugepage_kib"))
NETWORK = having(
    {},
    {
        "interfaces": Mapped(Line(), INTERFACE, most=1024),
        "infiniband": Mapped(Line(), LINES, most=1024),
    },
)
DISK = having({}, {**some(LINE, "path", "problem"), **some(COUNT, "free_mib", "total_mib")})
TIME = having(
    {},
    {**some(SECONDS, "offset_s", "error_s", "chrony_offset_s"), "synchronised": Maybe(Flag())},
)
ENVIRONMENT = having(
    {},
    {
        "schema": Whole(),
        "read_at": SECONDS,
        "hostname": LINE,
        "system": SYSTEM,
        "cpu": CPU,
        "memory": MEMORY,
        "gpu": tool(),
        "npu": tool("firmware", "toolkit"),
        "cuda_toolkits": Mapped(Line(), Line()),
        **some(LINES, "packages", "libraries"),
        **some(Maybe(Flag()), "fabric_manager", "conda"),
        "systems": Mapped(Line(), PIN),
        "datasets": Mapped(Line(), having({}, {"sha256": Maybe(Mapped(Line(), Line()))})),
        "network": NETWORK,
        "disk": DISK,
        "time": TIME,
    },
)
