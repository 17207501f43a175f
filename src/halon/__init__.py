"""halon: one tensor library, every device.

``import halon as torch``: tensors, autograd, ``nn`` and ``optim`` with PyTorch's names, on the
devices the registry finds. Nothing here imports a device's driver before that device is used.

>>> import halon
>>> halon.tensor([1.0, 2.0]) * 2
tensor([2., 4.])
"""

from halon import autograd as autograd
from halon.autograd.modes import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from halon.devices import planner as _planner
from halon.dispatcher.deterministic import (
    are_deterministic_algorithms_enabled,
    is_deterministic_algorithms_warn_only_enabled,
    use_deterministic_algorithms,
)
from halon.dispatcher.explain import explain
from halon.dispatcher.fallback import (
    FallbackWarning,
    fallback,
    fallback_counters,
    fallback_report,
)
from halon.dispatcher.promote import (
    default_dtype as get_default_dtype,
)
from halon.dispatcher.promote import (
    promote_types,
    set_default_dtype,
)
from halon.hal import dtypes as _dtypes
from halon.hal.device_name import device
from halon.hal.driver import Device, DeviceDriver
from halon.hal.dtypes import DType as dtype
from halon.hal.errors import (
    CompileError,
    DeviceExecutionError,
    DeviceLost,
    HalonError,
    NotImplementedOnDevice,
    OutOfMemoryError,
    UnknownDevice,
)
from halon.hal.registry import registry as _registry
from halon.tensor import creation as _creation
from halon.tensor import derived as _derived
from halon.tensor import functions as _functions
from halon.tensor import random as random
from halon.tensor.buffers import frombuffer
from halon.tensor.creation import (
    arange,
    as_tensor,
    empty,
    empty_like,
    eye,
    from_numpy,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    tensor,
    zeros,
    zeros_like,
)
from halon.tensor.distributions import binomial, multinomial, normal, poisson
from halon.tensor.dlpack import from_dlpack, to_dlpack
from halon.tensor.printing import set_printoptions
from halon.tensor.random import (
    Generator,
    bernoulli,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    randperm,
    set_rng_state,
)
from halon.tensor.tensor import Size, Tensor
from halon.tensor.type_info import (
    can_cast,
    finfo,
    iinfo,
    is_complex,
    is_floating_point,
    is_tensor,
    result_type,
)

__version__ = "0.1.0"

for _name in _derived.FUNCTIONS:
    globals()[_name] = getattr(_derived, _name)
for _name in _functions.FUNCTIONS:
    globals()[_name] = getattr(_functions, _name)
for _d in _dtypes.ALL:
    globals()[_d.name] = _d
bool = _dtypes.bool_
float, double, half, long, int, short, uint8 = (
    _dtypes.float32, _dtypes.float64, _dtypes.float16, _dtypes.int64, _dtypes.int32,
    _dtypes.int16, _dtypes.uint8,
)  # fmt: skip

register_device = _registry.register

from halon import data, nn, optim, serialization  # noqa: E402  (they use the names above)
from halon.serialization import load, save  # noqa: E402
