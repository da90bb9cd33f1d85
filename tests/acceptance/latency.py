"""A cable that is longer than others: every frame of a node arrives some milliseconds late.

    python latency.py PORT BRIDGE TAP MILLISECONDS

The kernel here has no netem. So the machine's end of the node's cable is taken out of the bridge, a
TAP device is put there, and this process carries each frame from one to the other after a delay,
with the kernel's virtio header: frames may be larger than the MTU, and without a checksum yet.
"""

import fcntl
import os
import select
import socket
import struct
import subprocess
import sys
import time
from collections import deque

ETH_P_ALL, SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 3, 263, 15, 23
SO_RCVBUFFORCE = 33
TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
OFFLOADS = 0x1F  # checksums, TCP over IPv4 and IPv6, ECN, UDP
MOST = 1 << 17


def ip(*words: str) -> None:
    """Run ip."""
    subprocess.run(["ip", *words], check=True)


def main() -> None:
    """Carry frames until the process ends, which cuts the cable."""
    port, bridge, name, delay_s = *sys.argv[1:4], float(sys.argv[4]) / 1000
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    fcntl.ioctl(tap, TUNSETOFFLOAD, OFFLOADS)
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    raw.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    raw.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    raw.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
    raw.bind((port, 0))
    ip("link", "set", port, "nomaster", "promisc", "on")
    ip("link", "set", name, "master", bridge, "up")
    print("carrying", flush=True)
    ends = {raw.fileno(): tap, tap: raw.fileno()}
    late: deque[tuple[float, int, bytes]] = deque()
    while True:
        patience = max(0.0, late[0][0] - time.monotonic()) if late else None
        for end in select.select(list(ends), [], [], patience)[0]:
            late.append((time.monotonic() + delay_s, ends[end], os.read(end, MOST)))
        while late and late[0][0] <= time.monotonic():
            _, end, frame = late.popleft()
            try:
                os.write(end, frame)
            except OSError:  # a full queue drops it, as a switch would
                continue


if __name__ == "__main__":
    main()
