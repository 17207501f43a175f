"""Where no compiler built the kernels the cpu device runs on NumPy, and says so."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["halon.kernels._native"] = None
import numpy as np
import halon
x = halon.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
y = ((x @ x).tanh() + halon.softmax(x, 1)).sum()
y.backward()
a = np.zeros(2, np.float32)
t = halon.from_numpy(a)
t.add_(1)
print(y.item(), x.grad.shape, a.tolist(), halon.ones(2).numpy().tolist())
print(halon.fallback_report("cpu").splitlines()[0])
"""


def test_without_compiled_kernels_programs_run_and_the_user_is_told() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert "cpu runs on NumPy, slowly: halon.kernels._native" in done.stderr
    assert "halon.Size([2, 2]) [1.0, 1.0] [1.0, 1.0]" in done.stdout
    assert done.stdout.startswith("5.999")
    assert "host" not in done.stdout.splitlines()[1]
