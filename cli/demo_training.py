"""The demo's network and its training: ordinary PyTorch code, the device a string."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import halon.nn as nn
import halon.optim as optim
from halon.autograd.modes import no_grad
from halon.cli.demo_results import Training
from halon.data import DataLoader, TensorDataset
from halon.dispatcher import fallback
from halon.tensor.random import Generator, manual_seed
from halon.tensor.tensor import Tensor
from halon.vision.digits import DigitsSplit

BATCH_SIZE = 32
LEARNING_RATE = 3e-3


def build_model() -> nn.Sequential:
    """build_model() -> Sequential, 8×8 images [N, 1, 8, 8] to logits [N, 10]."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


def train(
    device: str,
    split: DigitsSplit,
    epochs: int,
    seed: int,
    on_epoch: Callable[[int, float], Any] = lambda epoch, loss: None,
) -> tuple[nn.Sequential, Training]:
    """train(device, split, epochs, seed, on_epoch) -> (model, Training)

    Weights are drawn on the host and shuffles come from a generator of their own, so a seed means
    the same start, the same batches and the same dropout on every device.
    """
    manual_seed(seed)
    model = build_model().to(device)
    manual_seed(seed)  # the weights took numbers from the host's generator; dropout starts alike
    images = DataLoader(
        TensorDataset(split.train_images, split.train_labels),
        batch_size=BATCH_SIZE,
        shuffle=True,
        generator=Generator().manual_seed(seed),
    )
    optimizer = optim.Adam(model.parameters(), lr=LEARNING_RATE)
    loss_fn = nn.CrossEntropyLoss()
    result = Training(device)
    fallback.reset(device)
    model.train()
    clock = []
    for epoch in range(epochs):
        begin = time.perf_counter()
        result.losses.append(_one_epoch(model, images, optimizer, loss_fn, device))
        clock.append(time.perf_counter() - begin)
        on_epoch(epoch, result.losses[-1])
    result.fallback_share = fallback.share(device)
    result.fallback_report = fallback.fallback_report(device)
    result.seconds = sum(clock)
    steady = clock[1:] or clock
    per_epoch = sum(steady) / len(steady)
    result.images_per_second = len(split.train_labels) / per_epoch
    result.ms_per_step = 1000 * per_epoch / len(images)
    logits = predict(model, split.test_images, device)
    result.accuracy = float((logits.argmax(1) == split.test_labels.numpy()).mean())
    return model, result


def _one_epoch(
    model: nn.Sequential,
    images: DataLoader,
    optimizer: optim.Optimizer,
    loss_fn: nn.CrossEntropyLoss,
    device: str,
) -> float:
    """Train on every batch once; the mean loss."""
    total = 0.0
    for batch, labels in images:
        optimizer.zero_grad()
        loss = loss_fn(model(batch.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(images)


def predict(model: nn.Sequential, images: Tensor, device: str) -> np.ndarray:
    """predict(model, images, device) -> logits float32 [N, 10] on the host."""
    model.eval()
    with no_grad():
        return model(images.to(device)).detach().cpu().numpy()
