"""Bridge, links and network namespaces of a cluster, and its way out."""

import ipaddress
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from .system import ClusterError, RefusedError, run, which

PREFIX = "tb-"
NETNS = Path("/run/netns")
IP_FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
MOST_NODES = 64
FIRST_NODE = 11  # node1 is 10.77.<k>.11, the bridge 10.77.<k>.1


def checked_size(nodes: int) -> int:
    """The number of nodes; raises RefusedError where a cluster cannot have so many."""
    if not 1 <= nodes <= MOST_NODES:
        raise RefusedError(f"a cluster has 1 to {MOST_NODES} nodes, not {nodes}")
    return nodes


def bridge(cluster: str) -> str:
    """The bridge's name; with the links' names below the kernel's 15 characters."""
    return f"{PREFIX}{cluster}"


def link(cluster: str, number: int) -> str:
    """The machine's end of a node's cable."""
    return f"{PREFIX}{cluster}-{number}"


def namespace(cluster: str, number: int) -> str:
    """The node's network namespace, as ``ip netns`` lists it."""
    return f"{PREFIX}{cluster}-node{number}"


def address(subnet: int, number: int) -> str:
    """A node's IPv4 address."""
    return f"10.77.{subnet}.{FIRST_NODE + number - 1}"


def free_subnet(taken: Iterable[int]) -> int:
    """The first k whose 10.77.k.0/24 nobody here uses; raises ClusterError when all are."""
    routes = json.loads(run(["ip", "-j", "-4", "route", "show", "table", "all"]).stdout or "[]")
    known = [
        ipaddress.IPv4Network(route["dst"], strict=False)
        for route in routes
        if route.get("dst", "default") != "default"
    ]
    taken = set(taken)
    # a wide route (10.0.0.0/8 of a VPN) loses against ours; only if no other place is left
    for widest in (0, 24):
        near = [network for network in known if network.prefixlen >= widest]
        for k in range(256):
            ours = ipaddress.IPv4Network(f"10.77.{k}.0/24")
            if k not in taken and not any(ours.overlaps(network) for network in near):
                return k
    raise ClusterError("no free network in 10.77.0.0/16: end other clusters (down --all)")


def _way_out() -> tuple[str | None, int]:
    """The interface of the default route, and its MTU in bytes."""
    routes = json.loads(run(["ip", "-j", "-4", "route", "show", "default"]).stdout or "[]")
    if not routes or "dev" not in routes[0]:
        return None, 1500
    device = routes[0]["dev"]
    return device, int(Path(f"/sys/class/net/{device}/mtu").read_text())


def create(cluster: str, subnet: int, nodes: int) -> None:
    """Make bridge, namespaces and cables; raises ClusterError."""
    # never larger than the way out: what a path refuses in silence is a hang in the middle of apt
    mtu = _way_out()[1]
    main = bridge(cluster)
    lines = [
        f"link add {main} mtu {mtu} type bridge",
        f"addr add 10.77.{subnet}.1/24 dev {main}",
        f"link set {main} up",
    ]
    for number in range(1, nodes + 1):
        port, inside = link(cluster, number), namespace(cluster, number)
        lines += [
            f"netns add {inside}",
            f"link add {port} mtu {mtu} type veth peer name eth0 mtu {mtu} netns {inside}",
            f"link set {port} master {main} up",
        ]
    run(["ip", "-batch", "-"], text_in="\n".join(lines))
    for number in range(1, nodes + 1):
        lines = [
            "link set lo up",
            f"addr add {address(subnet, number)}/24 dev eth0",
            "link set eth0 up",
            f"route add default via 10.77.{subnet}.1",
        ]
        run(["ip", "-n", namespace(cluster, number), "-batch", "-"], text_in="\n".join(lines))


def remove(cluster: str) -> None:
    """Remove all that bears the cluster's name, whoever left it there."""
    devices = [path.name for path in Path("/sys/class/net").glob(f"{bridge(cluster)}-*")]
    spaces = [path.name for path in NETNS.glob(f"{PREFIX}{cluster}-node*")]
    lines = [f"link del {name}" for name in devices] + [f"netns del {name}" for name in spaces]
    if Path("/sys/class/net", bridge(cluster)).exists():
        lines.append(f"link del {bridge(cluster)}")
    if lines:
        run(["ip", "-force", "-batch", "-"], text_in="\n".join(lines), check=False)
    if which("nft"):
        run(["nft", "delete", "table", "ip", _table(cluster)], check=False)


def set_link(cluster: str, number: int, up: bool) -> None:
    """Plug the node's cable in or out: the node sees its carrier go, its addresses stay."""
    run(["ip", "link", "set", link(cluster, number), "up" if up else "down"])


def link_is_up(cluster: str, number: int) -> bool:
    """Whether the cable is plugged in."""
    flags = Path("/sys/class/net", link(cluster, number), "flags")
    return flags.exists() and bool(int(flags.read_text(), 16) & 1)


def _table(cluster: str) -> str:
    return f"trainbench_{cluster}"


def open_way_out(cluster: str, subnet: int) -> str | None:
    """Let the nodes reach what this machine reaches; returns why not, or None.

    Turns ip_forward on; the registry remembers what it was.
    """
    if _way_out()[0] is None:
        return "this machine has no default route"
    if which("nft") is None:
        return "nft is not installed (apt-get install nftables)"
    rules = f"""table ip {_table(cluster)} {{
        chain postrouting {{
            type nat hook postrouting priority 100;
            ip saddr 10.77.{subnet}.0/24 ip daddr != 10.77.{subnet}.0/24 masquerade
        }}
    }}"""
    try:
        run(["nft", "-f", "-"], text_in=rules)
        if IP_FORWARD.read_text().strip() != "1":
            IP_FORWARD.write_text("1")
    except ClusterError as error:
        return f"nft refused the rule: {str(error).splitlines()[0]}"
    except OSError as error:
        return f"cannot turn on net.ipv4.ip_forward: {error.strerror}"
    return None


def resolv_conf() -> str:
    """The machine's name servers, without those that listen on its loopback only."""
    for path in (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf")):
        lines = path.read_text().splitlines() if path.exists() else []
        servers = [line for line in lines if line.startswith("nameserver")]
        reachable = [line for line in servers if not line.split()[1].startswith(("127.", "::1"))]
        if reachable:
            others = [line for line in lines if line.startswith(("search", "domain", "options"))]
            return "\n".join(reachable + others) + "\n"
    return "# the machine has no name server that a node can reach\n"


def hosts_file(addresses: Mapping[str, str]) -> str:
    """The nodes' /etc/hosts: localhost, each other, and the names that the machine's file adds."""
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
    lines += [f"{address} {host}" for host, address in addresses.items()]
    for line in Path("/etc/hosts").read_text().splitlines():
        words = line.partition("#")[0].split()
        # not the machine's own name on a loopback address: to a node that is the node itself
        if len(words) > 1 and not words[0].startswith(("127.", "::1", "fe00:", "ff0")):
            lines.append(" ".join(words))
    return "\n".join(lines) + "\n"
