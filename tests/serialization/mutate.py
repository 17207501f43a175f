"""Damaged files: seeded mutations of good ones, from single bits to whole opcodes and entries."""

from __future__ import annotations

import io
import json
import pickletools
import random
import struct
import zipfile
from collections.abc import Callable

Draw = random.Random
_EXTREME = [0, 1, 0x7F, 0xFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63, 2**64 - 1]
_SPICE = [b"R", b"\x81", b"b", b"Q", b"(", b"t", b"0", b"2", b"e", b"u", b"}", b"]", b")", b"N"]


# -- bytes -----------------------------------------------------------------------------------------
def flip_bytes(raw: bytes, draw: Draw) -> bytes:
    out = bytearray(raw)
    for _ in range(draw.randint(1, 8)):
        out[draw.randrange(len(out))] = draw.randrange(256)
    return bytes(out)


def flip_bit(raw: bytes, draw: Draw) -> bytes:
    out = bytearray(raw)
    out[draw.randrange(len(out))] ^= 1 << draw.randrange(8)
    return bytes(out)


def truncate(raw: bytes, draw: Draw) -> bytes:
    return raw[: draw.randrange(len(raw))]


def insert(raw: bytes, draw: Draw) -> bytes:
    at = draw.randrange(len(raw) + 1)
    return raw[:at] + draw.randbytes(draw.randint(1, 32)) + raw[at:]


def delete(raw: bytes, draw: Draw) -> bytes:
    at = draw.randrange(len(raw))
    return raw[:at] + raw[at + draw.randint(1, 64) :]


def repeat(raw: bytes, draw: Draw) -> bytes:
    at = draw.randrange(len(raw))
    chunk = raw[at : at + draw.randint(1, 64)]
    return raw[:at] + chunk * draw.randint(2, 5) + raw[at:]


def swap(raw: bytes, draw: Draw) -> bytes:
    a, b, c, d = sorted(draw.randrange(len(raw) + 1) for _ in range(4))
    return raw[:a] + raw[c:d] + raw[b:c] + raw[a:b] + raw[d:]


def extreme_number(raw: bytes, draw: Draw) -> bytes:
    width = draw.choice([1, 2, 4, 8])
    at = draw.randrange(max(1, len(raw) - width))
    value = draw.choice(_EXTREME) & ((1 << 8 * width) - 1)
    return raw[:at] + value.to_bytes(width, draw.choice(["little", "big"])) + raw[at + width :]


BYTES: list[Callable[[bytes, Draw], bytes]] = [
    flip_bytes, flip_bit, truncate, insert, delete, repeat, swap, extreme_number,
]  # fmt: skip


# -- pickles ---------------------------------------------------------------------------------------
def opcodes(pickled: bytes, draw: Draw) -> bytes:
    """Opcodes removed, repeated, exchanged or put in; numbers made extreme."""
    try:
        starts = [at or 0 for _, _, at in pickletools.genops(pickled)]
    except ValueError:
        return flip_bytes(pickled, draw)
    pieces = [pickled[a:b] for a, b in zip(starts, [*starts[1:], len(pickled)], strict=True)]
    for _ in range(draw.randint(1, 3)):
        i, j = draw.randrange(len(pieces)), draw.randrange(len(pieces))
        action = draw.randrange(6)
        if action == 0:
            pieces[i] = b""
        elif action == 1:
            pieces.insert(i, pieces[j])
        elif action == 2:
            pieces[i], pieces[j] = pieces[j], pieces[i]
        elif action == 3:
            pieces.insert(i, draw.choice(_SPICE))
        elif action == 4:
            pieces.insert(i, _number(draw))
        elif pieces[i][:1] in (b"K", b"M", b"J", b"\x8a"):
            pieces[i] = _number(draw)
    return b"".join(pieces)


def _number(draw: Draw) -> bytes:
    value = draw.choice(_EXTREME) * draw.choice([1, -1])
    raw = value.to_bytes(9, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


# -- zip files -------------------------------------------------------------------------------------
def entries(raw: bytes, draw: Draw) -> bytes:
    """The entries changed and packed again with right checksums, so that readers look inside."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    names = sorted(content)
    pickled = next(name for name in names if name.endswith("data.pkl"))
    one, two = draw.choice(names), draw.choice(names)
    action = draw.randrange(8)
    if action < 3:
        content[pickled] = opcodes(content[pickled], draw)
    elif action == 3:
        content[pickled] = draw.choice(BYTES)(content[pickled], draw)
    elif action == 4:
        content[one], content[two] = content[two], content[one]
    elif action == 5:
        content[one] = draw.choice(BYTES)(content[one] or b"x", draw)
    elif action == 6:
        del content[one]
    packing = draw.choice([zipfile.ZIP_STORED] * 4 + [zipfile.ZIP_DEFLATED])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", packing) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return out.getvalue()


def legacy_opcodes(raw: bytes, draw: Draw) -> bytes:
    """The third to fifth pickle of an old file with changed opcodes."""
    stream = io.BytesIO(raw)
    ends = []
    for _ in range(5):
        for _ in pickletools.genops(stream):
            pass
        ends.append(stream.tell())
    which = draw.randint(2, 4)
    begin, end = ends[which - 1], ends[which]
    return raw[:begin] + opcodes(raw[begin:end], draw) + raw[end:]


def header(raw: bytes, draw: Draw) -> bytes:
    """A safetensors file with one value of its header changed and the length put right."""
    (length,) = struct.unpack_from("<Q", raw)
    fields = json.loads(raw[8 : 8 + length])
    name = draw.choice([n for n in fields if n != "__metadata__"])
    entry = fields[name]
    values = [draw.choice(_EXTREME), -1, 1.5, "x", None, [], {}, True, 10**30]
    action = draw.randrange(5)
    if action == 0:
        entry[draw.choice(list(entry))] = draw.choice(values)
    elif action == 1 and entry["shape"]:
        entry["shape"][draw.randrange(len(entry["shape"]))] = draw.choice(values)
    elif action == 2:
        entry["data_offsets"][draw.randrange(2)] = draw.choice(values)
    elif action == 3:
        entry["dtype"] = draw.choice(["F32", "F64", "I8", "BOOL", "F4", ""])
    else:
        fields[draw.choice(["x", "__metadata__"])] = draw.choice(values)
    text = json.dumps(fields).encode()
    return struct.pack("<Q", len(text)) + text + raw[8 + length :]


DEEP: dict[str, Callable[[bytes, Draw], bytes]] = {
    "halon": entries, "torch": entries, "legacy": legacy_opcodes, "safetensors": header,
}  # fmt: skip


def mutated(files: dict[str, bytes], number: int) -> tuple[str, str, bytes]:
    """(format, mutation, content) of damaged file ``number``: always the same."""
    draw = Draw(number)
    kind = sorted(files)[number % len(files)]
    change = DEEP[kind] if draw.random() < 0.6 else draw.choice(BYTES)
    raw = change(files[kind], draw)
    if draw.random() < 0.1 and raw:
        raw = draw.choice(BYTES)(raw, draw)
    return kind, change.__name__, raw
