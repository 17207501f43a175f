"""Training on each device in turn, then the first one's weights on all others."""

from __future__ import annotations

import traceback
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from halon.cli import demo_report
from halon.cli.demo_results import Agreement, Training
from halon.cli.demo_training import build_model, predict, train
from halon.dispatcher.fallback import fallback
from halon.hal.registry import registry
from halon.nn.safetensors_io import load_file, save_file
from halon.vision.digits import DigitsSplit, digits_split

#: a gap between the two best logits below this is a tie in float32, decided by rounding
TIE = 1e-4


def compare_devices(devices: list[str], epochs: int, seed: int, folder: Path) -> int:
    """compare_devices(devices, epochs, seed, folder) -> 0, or 1 if a device failed or disagrees."""
    console = Console()
    for row in registry.table():
        if row.state != "ready":
            console.print(f"[dim]{row.name}: {row.state}. {demo_report.plain(row.reason)}[/dim]")
    split = digits_split(seed)
    console.print(
        f"Training on {len(split.train_labels)} images, testing on {len(split.test_labels)}, "
        f"{epochs} epochs, seed {seed}"
    )
    with fallback("silent"):  # told once per device below, not once per operator
        results = _train_all(console, devices, split, epochs, seed, folder)
    trained = [result for result in results if not result.error]
    with fallback("silent"):
        agreements = [_agreement(trained[0], other.device, split, folder) for other in trained[1:]]
    console.print(demo_report.results_table(results))
    for result in trained:
        if result.fallback_share:
            console.print(demo_report.shortened(result.fallback_report), markup=False)
    if agreements:
        console.print(demo_report.agreement_table(trained[0].device, agreements))
    demo_report.plot_losses(results, folder / "loss.png")
    demo_report.write_json(results, agreements, epochs, seed, folder / "results.json")
    console.print(f"Written to {folder}: loss.png, results.json and one weights file per device")
    failed = any(result.error for result in results)
    return int(failed or not all(agreement.complete for agreement in agreements))


def _train_all(
    console: Console,
    devices: list[str],
    split: DigitsSplit,
    epochs: int,
    seed: int,
    folder: Path,
) -> list[Training]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        tasks = [progress.add_task(name, total=epochs, loss="–", start=False) for name in devices]
        return [
            _train_one(progress, task, name, split, epochs, seed, folder)
            for task, name in zip(tasks, devices, strict=True)
        ]


def _train_one(
    progress: Progress,
    task: TaskID,
    device: str,
    split: DigitsSplit,
    epochs: int,
    seed: int,
    folder: Path,
) -> Training:
    """Train and save; whatever a device raises becomes the result's error, so others go on."""
    progress.start_task(task)

    def show(epoch: int, loss: float) -> None:
        progress.update(task, completed=epoch + 1, loss=f"{loss:.4f}")

    try:
        model, result = train(device, split, epochs, seed, show)
        path = weights_path(folder, device)
        save_file(model.state_dict(), path)
        result.weights = path.name
        return result
    except Exception as error:
        progress.update(task, loss="failed")
        (folder / f"error-{_file_name(device)}.txt").write_text(traceback.format_exc())
        return Training(device, error=f"{type(error).__name__}: {error}")
    finally:
        progress.stop_task(task)


def _agreement(first: Training, device: str, split: DigitsSplit, folder: Path) -> Agreement:
    """Load the first device's weights on ``device`` and compare predictions on the test images."""
    path = weights_path(folder, first.device)
    total = len(split.test_labels)
    try:
        expected = _logits(path, split, first.device)
        found = _logits(path, split, device)
    except Exception as error:
        return Agreement(device, total=total, note=f"{type(error).__name__}: {error}")
    differ = np.flatnonzero(expected.argmax(1) != found.argmax(1))
    largest = float(np.abs(expected - found).max())
    return Agreement(
        device,
        total - len(differ),
        total,
        largest,
        _explain(differ, expected) if len(differ) else "",
    )


def _logits(path: Path, split: DigitsSplit, device: str) -> np.ndarray:
    model = build_model().to(device)
    model.load_state_dict(load_file(path, device))
    return predict(model, split.test_images, device)


def _explain(differ: np.ndarray, logits: np.ndarray) -> str:
    """Which images differ, and whether their two best logits are a tie."""
    best = np.sort(logits[differ], axis=1)
    gap = float((best[:, -1] - best[:, -2]).max())
    images = ", ".join(str(i) for i in differ[:5]) + (" …" if len(differ) > 5 else "")
    if gap < TIE:
        return f"images {images}: ties, the two best logits are at most {gap:.1e} apart"
    return f"images {images}: no ties, the two best logits are up to {gap:.1e} apart"


def weights_path(folder: Path, device: str) -> Path:
    """The weights file of a device in the demo's folder."""
    return folder / f"weights-{_file_name(device)}.safetensors"


def _file_name(device: str) -> str:
    return device.replace(":", "-")
