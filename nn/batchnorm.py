"""BatchNorm1d and BatchNorm2d (S. Ioffe and C. Szegedy, "Batch Normalization", 2015)."""

from __future__ import annotations

from typing import Any, ClassVar

from halon.autograd.modes import no_grad
from halon.hal import dtypes
from halon.hal.dtypes import DType
from halon.nn import functional as F
from halon.nn import init
from halon.nn.module import Module
from halon.nn.parameter import Parameter
from halon.tensor.creation import empty, ones, tensor, zeros
from halon.tensor.tensor import Tensor


class _BatchNorm(Module):
    """What both share; a subclass says which ranks it takes."""

    # 2: num_batches_tracked is saved
    _version = 2
    _ranks: ClassVar[tuple[int, ...]]

    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        made = {"device": device, "dtype": dtype}
        size = (num_features,)
        self.register_parameter("weight", Parameter(empty(size, **made)) if affine else None)
        has_bias = affine and bias
        self.register_parameter("bias", Parameter(empty(size, **made)) if has_bias else None)
        tracks = track_running_stats
        self.register_buffer("running_mean", zeros(size, **made) if tracks else None)
        self.register_buffer("running_var", ones(size, **made) if tracks else None)
        count = tensor(0, dtype=dtypes.int64, device=device) if tracks else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget what was tracked: mean 0, variance 1, no batches."""
        if self.track_running_stats:
            for buffer, value in (
                (self.running_mean, 0.0),
                (self.running_var, 1.0),
                (self.num_batches_tracked, 0),
            ):
                if buffer is not None:
                    buffer.fill_(value)

    def reset_parameters(self) -> None:
        """Weight one, bias zero, nothing tracked."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_rank(input)
        uses_batch = self.training or (self.running_mean is None and self.running_var is None)
        # in training without tracking, F.batch_norm must leave the buffers alone
        updates = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if updates else None,
            self.running_var if updates else None,
            self.weight,
            self.bias,
            uses_batch,
            self._count_batch(),
            self.eps,
        )

    def _count_batch(self) -> float:
        """Count this batch; how much of the running statistics it replaces."""
        counts = self.training and self.track_running_stats
        if counts and self.num_batches_tracked is not None:
            with no_grad():
                self.num_batches_tracked.add_(1)
            if self.momentum is None:  # cumulative average
                return 1.0 / float(self.num_batches_tracked)
        return 0.0 if self.momentum is None else self.momentum

    def _check_rank(self, input: Tensor) -> None:
        if input.dim() not in self._ranks:
            expected = " or ".join(f"{rank}D" for rank in self._ranks)
            raise ValueError(f"expected {expected} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        *rest: Any,
    ) -> None:
        key = prefix + "num_batches_tracked"
        version = local_metadata.get("version")
        old = version is None or version < 2
        if old and self.track_running_stats and key not in state_dict:
            count = self.num_batches_tracked
            state_dict[key] = tensor(0, dtype=dtypes.int64) if count is None else count
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class BatchNorm1d(_BatchNorm):
    """BatchNorm1d(num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True,
    device=None, dtype=None, *, bias=True), normalises each feature over the batch.

    Input [N, C] or [N, C, L]. Training uses the batch's statistics and moves the running ones
    towards them by ``momentum`` (None: cumulative average); evaluation uses the running ones.

    Raises:
        ValueError: another rank, or a training batch with one value per feature.

    >>> import halon
    >>> from halon import nn
    >>> nn.BatchNorm1d(2)(halon.tensor([[0.0, 1.0], [2.0, 1.0]])).shape == (2, 2)
    True
    """

    _ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """BatchNorm2d(num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True,
    device=None, dtype=None, *, bias=True), normalises each channel over batch and image.

    Input [N, C, H, W]; otherwise as ``BatchNorm1d``.

    >>> from halon import nn
    >>> nn.BatchNorm2d(3)
    BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    _ranks = (4,)
