"""``halon``: the command's arguments and which module answers them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import metadata


def main(argv: Sequence[str] | None = None) -> int:
    """main(argv=None) -> int, runs one command and returns its exit status.

    0 is success, 1 a command that found a failure, 2 arguments that cannot be used.

    >>> from halon.cli.main import main
    >>> main(["--version"])
    Traceback (most recent call last):
    SystemExit: 0
    """
    arguments = _parser().parse_args(argv)
    try:
        return arguments.run(arguments)
    except KeyboardInterrupt:
        print("halon: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # the reader of a pipe such as `halon devices | head` left; keep the exit quiet
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="halon", description="One tensor library for every device found here."
    )
    parser.add_argument("--version", action="version", version=f"halon {_version()}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="command")
    _add_devices(commands)
    _add_demo(commands)
    return parser


def _add_devices(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "devices", help="list every registered device driver, its state and why"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.set_defaults(run=_run_devices)


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "demo", help="train a small network on handwritten digits on every device and compare"
    )
    parser.add_argument(
        "--devices",
        default="all",
        metavar="NAMES",
        help="device names separated by commas, or all (default)",
    )
    parser.add_argument(
        "--epochs", type=_positive, default=15, metavar="N", help="passes over the images (15)"
    )
    parser.add_argument(
        "--seed", type=_seed, default=0, metavar="N", help="weights, shuffles and dropout (0)"
    )
    parser.add_argument(
        "--out", default="out/demo", metavar="DIR", help="where results go (out/demo)"
    )
    parser.set_defaults(run=_run_demo)


def _run_devices(arguments: argparse.Namespace) -> int:
    from halon.cli.devices import run

    return run(arguments.json)


def _run_demo(arguments: argparse.Namespace) -> int:
    from halon.cli.demo import run

    return run(arguments.devices, arguments.epochs, arguments.seed, arguments.out)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not positive")
    return value


def _seed(text: str) -> int:
    value = int(text)
    if not 0 <= value < 2**32:
        raise argparse.ArgumentTypeError(f"{value} is not in 0 to 2**32 - 1")
    return value


def _version() -> str:
    try:
        return metadata.version("halon")
    except metadata.PackageNotFoundError:
        return "(not installed)"


if __name__ == "__main__":
    sys.exit(main())
