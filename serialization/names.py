"""What saved files call things: torch's names of dtypes, storages and rebuilding functions."""

from __future__ import annotations

from typing import Final

from halon.hal import dtypes as dt
from halon.hal.dtypes import DType

#: the storage class of each dtype that has one; files name dtypes by it.
STORAGES: Final[dict[str, DType]] = {
    "DoubleStorage": dt.float64, "FloatStorage": dt.float32, "HalfStorage": dt.float16,
    "BFloat16Storage": dt.bfloat16, "LongStorage": dt.int64, "IntStorage": dt.int32,
    "ShortStorage": dt.int16, "CharStorage": dt.int8, "ByteStorage": dt.uint8,
    "BoolStorage": dt.bool_, "ComplexDoubleStorage": dt.complex128,
    "ComplexFloatStorage": dt.complex64,
}  # fmt: skip
#: dtype → its storage class; younger dtypes have none and are stored as plain bytes.
STORAGE_OF: Final[dict[DType, str]] = {dtype: name for name, dtype in STORAGES.items()}

#: the bytes of any dtype
UNTYPED: Final = ("torch.storage", "UntypedStorage")

REBUILD_TYPED: Final = ("torch._utils", "_rebuild_tensor_v2")
REBUILD_UNTYPED: Final = ("torch._utils", "_rebuild_tensor_v3")
REBUILD_PARAMETER: Final = ("torch._utils", "_rebuild_parameter")

#: modules that changed their name since files of Python 2 and of NumPy 1 were written.
RENAMED: Final[dict[str, str]] = {
    "__builtin__": "builtins", "copy_reg": "copyreg", "numpy._core.multiarray":
    "numpy.core.multiarray",
}  # fmt: skip
