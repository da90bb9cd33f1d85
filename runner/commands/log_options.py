"""What a user may say of a log that it need not say itself: options of `parse` and `import`."""

import argparse

from runner.base.errors import UserError

MOST = 10**9  # of any size of a run
_SIZES = ("devices", "global_batch_size", "tokens_per_sample")


def add_log_options(command: argparse.ArgumentParser) -> None:
    """Add the options."""
    from runner.systems.common.registry import system_names

    command.add_argument(
        "--system",
        metavar="NAME",
        default="auto",
        help=f"auto (default), {', '.join(system_names())}",
    )
    command.add_argument(
        "--family", metavar="NAME", help="read only lines of this family (docs/parsers.md)"
    )
    command.add_argument("--devices", type=int, metavar="N", help="devices of the whole job")
    command.add_argument(
        "--global-batch-size",
        type=int,
        metavar="N",
        help="samples an iteration, where the log does not say or DeepSpeed was told another",
    )
    command.add_argument(
        "--tokens-per-sample", type=int, metavar="N", help="tokens of a sample, its sequence length"
    )


def check_log_options(chosen: argparse.Namespace) -> None:
    """Refuse what no log can be of, in one sentence."""
    from runner.base.suggest import nearest
    from runner.logs.kinds import families
    from runner.systems.common.registry import system_names

    if chosen.system not in (known := ["auto", *system_names()]):
        hint = nearest(chosen.system, known)
        raise UserError(
            f"there is no system {chosen.system!r}{hint}; --system is auto or one of"
            f" {', '.join(system_names())}"
        )
    if chosen.family is not None and chosen.family not in families():
        hint = nearest(chosen.family, families())
        raise UserError(
            f"there is no family {chosen.family!r}{hint}; --family is one of"
            f" {', '.join(families())}"
        )
    for name in _SIZES:
        value = getattr(chosen, name)
        if value is not None and not 1 <= value <= MOST:
            option = f"--{name.replace('_', '-')}"
            limit = "must be at least 1" if value < 1 else f"may be at most {MOST:,}"
            raise UserError(f"{option} is {value}; it {limit}")
