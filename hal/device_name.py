"""``halon.device``: a device's name and index, as PyTorch's class of the same name."""

from __future__ import annotations

from halon.hal.errors import UnknownDevice


class device:
    """Names a device; ``index`` None means the device's first.

    Args:
        spec: ``"npu"``, ``"npu:1"``, another device, or an index with ``index`` omitted.

    Raises:
        UnknownDevice: the text is not ``name`` or ``name:index``.

    >>> import halon
    >>> d = halon.device("npu:1")
    >>> d.type, d.index, str(d)
    ('npu', 1, 'npu:1')
    """

    __slots__ = ("index", "type")

    def __init__(self, spec: str | device, index: int | None = None) -> None:
        if isinstance(spec, device):
            self.type, self.index = spec.type, spec.index if index is None else index
            return
        if not isinstance(spec, str):
            raise TypeError(f"device(): expected a name such as 'npu:0', got {type(spec).__name__}")
        name, colon, number = spec.partition(":")
        if not name or (colon and not number.isdecimal()):
            raise UnknownDevice(f"Invalid device string: {spec!r}")
        if colon and index is not None:
            raise UnknownDevice(f"type (string) must not include an index: {spec!r}")
        if index is not None and index < 0:
            raise UnknownDevice(f"Device index must not be negative: {index}")
        self.type = name
        self.index: int | None = int(number) if colon else index

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{index})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return device, (str(self),)
