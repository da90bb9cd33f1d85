"""What NVIDIA's driver says of a node's GPUs, by its management library, without nvidia-smi.

One look takes a few milliseconds a device and starts no process. The library's names and numbers
are those of nvml.h (NVML API reference, r580); `energy` is its total energy counter, of Volta and
later, in mJ since the driver was loaded, which is renewed about ten times a second.
"""

from __future__ import annotations

import ctypes
import time

TYPE_CHECKING = False  # as typing's, whose import takes longer than all else
if TYPE_CHECKING:
    from typing import Any, Iterator

LIBRARY = "libnvidia-ml.so.1"
HEADER = (
    "timestamp, index, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W],"
    " clocks.current.sm [MHz], temperature.gpu, total_energy [mJ], clocks_event_reasons.active\n"
)
ABSENT = "[N/A]"  # as nvidia-smi prints what a device does not tell
SM_CLOCK = 1
GPU_TEMPERATURE = 0


class Utilization(ctypes.Structure):
    """nvmlUtilization_t, in percent."""

    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class Memory(ctypes.Structure):
    """nvmlMemory_v2_t, in bytes; the driver's own part is not in `used`, as with nvidia-smi."""

    _fields_ = [("version", ctypes.c_uint)] + [
        (name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used")
    ]


class Driver:
    """The library, and its devices. Raises OSError if it is missing."""

    header = HEADER

    def __init__(self, library: str = LIBRARY) -> None:
        self.library = ctypes.CDLL(library)
        if self.call("nvmlInit_v2") is None:
            raise OSError("%s cannot be initialised" % library)
        count = ctypes.c_uint()
        self.call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        self.devices = [self.device(index) for index in range(count.value)]

    def call(self, name: str, *arguments: Any) -> bool | None:
        """Call a function; None where the library lacks it, or the device does not tell."""
        try:
            function = getattr(self.library, name)
        except AttributeError:
            return None
        return True if function(*arguments) == 0 else None

    def device(self, index: int) -> Any:
        """Return the handle of a device; None where it is lost."""
        handle = ctypes.c_void_p()
        succeeded = self.call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(handle))
        return handle if succeeded else None

    def number(self, device: Any, name: str, *arguments: int, wide: bool = False) -> int | None:
        """Return the one number that a function of a device gives."""
        value = ctypes.c_ulonglong() if wide else ctypes.c_uint()
        succeeded = self.call(name, device, *arguments, ctypes.byref(value))
        return value.value if succeeded else None

    def row(self, index: int) -> str:
        """Return a device's row; its time (epoch seconds) is that of its energy."""
        device = self.devices[index]
        busy, memory = Utilization(), Memory(version=ctypes.sizeof(Memory) | 2 << 24)
        used = total = percent = None
        if self.call("nvmlDeviceGetUtilizationRates", device, ctypes.byref(busy)):
            percent = busy.gpu
        if self.call("nvmlDeviceGetMemoryInfo_v2", device, ctypes.byref(memory)):
            used, total = memory.used >> 20, memory.total >> 20
        power = self.number(device, "nvmlDeviceGetPowerUsage")
        clock = self.number(device, "nvmlDeviceGetClockInfo", SM_CLOCK)
        heat = self.number(device, "nvmlDeviceGetTemperature", GPU_TEMPERATURE)
        why = self.number(device, "nvmlDeviceGetCurrentClocksEventReasons", wide=True)
        if why is None:  # its name before r535
            why = self.number(device, "nvmlDeviceGetCurrentClocksThrottleReasons", wide=True)
        energy = self.number(device, "nvmlDeviceGetTotalEnergyConsumption", wide=True)
        fields = [
            "%.3f" % time.time(),
            "%d" % index,
            figure_text(percent, "%d %%"),
            figure_text(used, "%d MiB"),
            figure_text(total, "%d MiB"),
            figure_text(None if power is None else power / 1000, "%.2f W"),
            figure_text(clock, "%d MHz"),
            figure_text(heat, "%d"),
            figure_text(energy, "%d mJ"),
            figure_text(why, "0x%016x"),
        ]
        return ", ".join(fields) + "\n"

    def rows(self) -> Iterator[str]:
        """Yield a row of each device that is there."""
        for index, device in enumerate(self.devices):
            if device is not None:
                yield self.row(index)


def figure_text(value: float | None, form: str) -> str:
    """Return a figure as a row has it."""
    return ABSENT if value is None else form % value
