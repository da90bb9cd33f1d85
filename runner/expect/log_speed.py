"""The speed that a log says, with the conditions that it and a person say. Pure."""

from dataclasses import replace

from runner.expect.conditions import Subject
from runner.judge.log_reading import Reading


def speed_of_log(reading: Reading, subject_given: Subject) -> tuple[Subject | None, str]:
    """Return the log's speed, None where it says none, and why it cannot be compared.

    What `subject_given` says of the run goes before the log's own words; its rate is not looked at.
    """
    sizes, rate = reading.sizes, reading.tokens_per_s_per_device
    if rate is not None:
        subject = replace(
            subject_given,
            tokens_per_s_per_device=rate,
            devices=sizes.devices,
            tokens_per_sample=sizes.tokens_per_sample,
            global_batch_size=reading.batch_size,
            trainer=reading.found.system or "",
        )
        return subject, why_no_device(subject_given.device, "a log names no device")
    if not reading.measurement.intervals:
        return None, "the log has no training step"
    needs = {
        "--devices": sizes.devices,
        "--tokens-per-sample": sizes.tokens_per_sample,
        "--global-batch-size": reading.statistics.samples_per_s,
    }
    lacking = [option for option, value in needs.items() if not value]
    return None, f"the log does not say tokens/s of a device; add {' and '.join(lacking)}"


def why_no_device(device: str, why: str = "the device is not given") -> str:
    """Say why nothing is compared without a device; empty where there is one."""
    return "" if device.strip() else f"{why}; add --device, such as --device 'NVIDIA H200'"
