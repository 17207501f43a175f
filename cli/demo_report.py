"""What the demo leaves behind: two tables, a plot and a JSON file."""

from __future__ import annotations

import dataclasses
import json
import math
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from halon.cli.demo_results import Agreement, Training
from halon.cli.demo_training import BATCH_SIZE, LEARNING_RATE

_LINES = ("-", "--", "-.", ":")


def plain(text: str) -> str:
    """The text with nothing in it that rich would take for markup."""
    return escape(text)


def results_table(results: Sequence[Training]) -> Table:
    """results_table(results) -> rich Table, one row per device."""
    table = Table(title="Training")
    table.add_column("device")
    for heading in ("test accuracy", "images/s", "ms per step", "host fallback"):
        table.add_column(heading, justify="right")
    for result in results:
        if result.error:
            # one line here; the traceback is in the folder
            summary = result.error.splitlines()[0]
            table.add_row(result.device, f"[red]failed: {plain(summary)}[/red]", "–", "–", "–")
            continue
        table.add_row(
            result.device,
            f"{result.accuracy:.2%}",
            f"{result.images_per_second:,.0f}",
            f"{result.ms_per_step:.2f}",
            f"{result.fallback_share:.1%}",
        )
    return table


def agreement_table(first: str, agreements: Sequence[Agreement]) -> Table:
    """agreement_table(first, agreements) -> rich Table, the first device's weights elsewhere."""
    table = Table(title=f"Weights from {first}, predictions on the test images")
    table.add_column("device")
    table.add_column("equal", justify="right")
    table.add_column("largest logit difference", justify="right")
    table.add_column("")
    for agreement in agreements:
        verdict = "[green]all equal[/green]" if agreement.complete else plain(agreement.note)
        table.add_row(
            agreement.device,
            f"{agreement.equal} of {agreement.total}",
            f"{agreement.largest_difference:.1e}",
            verdict,
        )
    return table


def plot_losses(results: Sequence[Training], path: Path) -> None:
    """plot_losses(results, path) -> None, writes mean training loss by epoch as a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for i, result in enumerate(result for result in results if result.losses):
        epochs = range(1, len(result.losses) + 1)
        # curves of one seed lie on each other, so widths and dashes differ
        axes.plot(
            epochs,
            result.losses,
            _LINES[i % len(_LINES)],
            linewidth=max(1.2, 4 - i),
            marker="o" if len(result.losses) == 1 else None,
            label=f"{result.device} ({result.accuracy:.2%})",
        )
    axes.set(xlabel="epoch", ylabel="mean training loss", yscale="log")
    axes.set_title("Handwritten digits: one program, every device")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(visible=True, which="both", alpha=0.3)
    if axes.lines:
        axes.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def write_json(
    results: Sequence[Training],
    agreements: Sequence[Agreement],
    epochs: int,
    seed: int,
    path: Path,
) -> None:
    """write_json(results, agreements, epochs, seed, path) -> None, everything the tables show."""
    content = {
        "epochs": epochs,
        "seed": seed,
        "batch_size": BATCH_SIZE,
        "learning_rate": LEARNING_RATE,
        "machine": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "devices": [dataclasses.asdict(result) for result in results],
        "agreement": [dataclasses.asdict(agreement) for agreement in agreements],
    }
    path.write_text(json.dumps(_finite(content), indent=2, allow_nan=False) + "\n")


def _finite(value: Any) -> Any:
    """The value with NaN and infinities, which JSON lacks, as null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def shortened(report: str, most: int = 5) -> str:
    """A fallback report with its ``most`` costliest operators.

    >>> shortened("npu:0: 3 calls\\n  a\\n  b", 1)
    'npu:0: 3 calls\\n  a\\n  … and 1 more operators'
    """
    lines = report.splitlines()
    rest = len(lines) - 1 - most
    return "\n".join(
        [*lines[: most + 1], *([f"  … and {rest} more operators"] if rest > 0 else [])]
    )
