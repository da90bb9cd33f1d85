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


def same_kind(kind: Kind, *names: str) -> dict[str, Kind]:
    """Return one kind for several names."""
    return dict.fromkeys(names, kind)


def tool(*names: str) -> Fields:
    """Return what a vendor's tool says of its devices; lines, by these names."""
    lines = same_kind(LINE, "driver", "problem", *names)
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
    {**same_kind(COUNT, "mtu", "speed_mbit_s"), "addresses": List(Line(), most=1024)},
)
SYSTEM = having(
    {},
    {
        **same_kind(LINE, "os", "kernel", "architecture", "boot_id", "transparent_hugepages"),
        **same_kind(Mapped(Line(), COUNT), "settings", "limits"),
        "iommu": Maybe(Flag()),
    },
)
CPU = having(
    {},
    {
        **same_kind(LINE, "model", "governor"),
        **same_kind(COUNT, "sockets", "cores", "threads", "usable", "numa_nodes", "quota_percent"),
    },
)
MEMORY = having({}, same_kind(COUNT, "total_mib", "swap_mib", "hugepages", "hugepage_kib"))
NETWORK = having(
    {},
    {
        "interfaces": Mapped(Line(), INTERFACE, most=1024),
        "infiniband": Mapped(Line(), LINES, most=1024),
    },
)
DISK = having(
    {}, {**same_kind(LINE, "path", "problem"), **same_kind(COUNT, "free_mib", "total_mib")}
)
TIME = having(
    {},
    {**same_kind(SECONDS, "offset_s", "error_s", "chrony_offset_s"), "synchronised": Maybe(Flag())},
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
        **same_kind(LINES, "packages", "libraries"),
        **same_kind(Maybe(Flag()), "fabric_manager", "conda"),
        "systems": Mapped(Line(), PIN),
        "datasets": Mapped(Line(), having({}, {"sha256": Maybe(Mapped(Line(), Line()))})),
        "network": NETWORK,
        "disk": DISK,
        "time": TIME,
    },
)
