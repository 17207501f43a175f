"""Files made to do harm: nothing in them runs, and none takes time or memory."""

import builtins
import contextlib
import functools
import io
import operator
import os
import pickle
import struct
import subprocess
import sys
import time
import tracemalloc
import zipfile

import pytest

import halon
from halon.serialization import (
    ArchiveError,
    ForbiddenObject,
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from halon.serialization.globals import finder
from halon.serialization.machine import Machine
from halon.serialization.rebuild import REBUILDERS

MARKER = "HALON_TEST_HARM"


def harm():
    os.environ[MARKER] = "done"


class Reduces:
    """Pickles as a call."""

    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


def as_zip(pickled):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/version", "3\n")
    return file.getvalue()


def as_legacy(pickled):
    numbers = (0x1950A86A20F9469CFC6C, 1001, {"little_endian": sys.byteorder == "little"})
    return b"".join(pickle.dumps(n, 2) for n in numbers) + pickled + pickle.dumps([], 2)


def load(content):
    return halon.load(io.BytesIO(content))


SHELL = f"touch {MARKER}"
CALLS = {
    "posix.system": Reduces(os.system, (SHELL,)),
    "subprocess.Popen": Reduces(subprocess.Popen, (["touch", MARKER],)),
    "subprocess.check_output": Reduces(subprocess.check_output, (["touch", MARKER],)),
    "builtins.eval": Reduces(eval, ("__import__('os').system('true')",)),
    "builtins.exec": Reduces(exec, ("import os",)),
    "builtins.getattr": Reduces(getattr, (os, "system")),
    "builtins.__import__": Reduces(__import__, ("os",)),
    "builtins.open": Reduces(open, (MARKER, "w")),
    "functools.partial": Reduces(functools.partial, (os.system, SHELL)),
    "operator.attrgetter": Reduces(operator.attrgetter("system"), (os,)),
    "pickle.loads": Reduces(pickle.loads, (b"cos\nsystem\n(S'true'\ntR.",)),
    "harm": Reduces(harm, ()),
}  # fmt: skip


def wrapped(value):
    """A value alone, in containers, as an argument, as state and as a key."""
    yield value
    yield {"state": [1, (2, value)]}
    yield Reduces(dict, ([("k", value)],))
    yield Reduces(Exception, (), {"x": value})
    yield [halon.float32, value]


@pytest.mark.parametrize("name", sorted(CALLS))
@pytest.mark.parametrize("form", [as_zip, as_legacy], ids=["zip", "legacy"])
@pytest.mark.parametrize("protocol", range(6))
def test_a_call_is_refused_by_name_and_not_made(name, form, protocol, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(MARKER, raising=False)
    for value in wrapped(CALLS[name]):
        try:
            pickled = pickle.dumps(value, protocol)
        except (TypeError, pickle.PicklingError):
            continue  # this form cannot be written
        with pytest.raises((ForbiddenObject, ArchiveError)) as caught:
            load(form(pickled))
        if value is CALLS[name] and protocol >= 2:
            assert isinstance(caught.value, pickle.UnpicklingError)
            assert name.rpartition(".")[2] in str(caught.value) or "os" in str(caught.value)
    assert os.listdir(tmp_path) == []
    assert MARKER not in os.environ


G = b"\x80\x02c"
HAND_MADE = {
    "os system by GLOBAL": (G + b"os\nsystem\n(S'true'\ntR.", "os.system"),
    "os system by INST": (b"\x80\x02(S'true'\nios\nsystem\n.", "INST"),
    "os system by OBJ": (b"\x80\x02(cos\nsystem\nS'true'\no.", "os.system"),
    "os system by STACK_GLOBAL": (
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.", "os.system"),
    "a dotted name": (b"\x80\x04\x8c\x05torch\x8c\x17serialization.os.system\x93.", "os.system"),
    "a method of a listed class": (G + b"torch\nSize.__class__\n.", "Size.__class__"),
    "a listed function kept as a value": (G + b"collections\nOrderedDict\n.", "OrderedDict"),
    "an attribute of a listed function": (
        G + b"torch._utils\n_rebuild_tensor_v2\n}X\x08\0\0\0__code__NsN\x86b.", "state for a"),
    "state for a dtype": (G + b"torch\nfloat32\n}X\4\0\0\0nameX\1\0\0\0xsb.", "state for a DType"),
    "a method of a dict hidden": (
        G + b"collections\nOrderedDict\n)R}X\5\0\0\0itemsNsb.", "attribute 'items'"),
    "a call of a result": (b"\x80\x02X\1\0\0\0x)R.", "a call of str"),
    "a copyreg extension": (b"\x80\x02\x82\x01.", "EXT1"),
    "a text persistent id": (b"\x80\x02Pstorage\n.", "PERSID"),
    "a persistent module": (b"\x80\x02X\6\0\0\0moduleNNNN(tQ.", "damaged"),
    "an out-of-band buffer": (b"\x80\x05\x97.", "NEXT_BUFFER"),
    "an object by NEWOBJ_EX": (G + b"collections\nOrderedDict\n)}\x92.", "damaged"),
}  # fmt: skip


@pytest.mark.parametrize("name", HAND_MADE)
@pytest.mark.parametrize("form", [as_zip, as_legacy], ids=["zip", "legacy"])
def test_a_hand_made_trick_is_refused(name, form):
    pickled, says = HAND_MADE[name]
    with pytest.raises(ArchiveError) as caught:
        load(form(pickled))
    assert says in str(caught.value)


TRILLION = G + b"__builtin__\nbytearray\n\x8a\x06\x00\x10\xa5\xd4\xe8\x00\x85"
GREEDY = {
    "a memo index of 2**32 - 1": b"\x80\x02Nr\xff\xff\xff\xff0Nq\1.",
    "bytes of 2**62": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 62) + b"x.",
    "bytes of 2**64 - 1": b"\x80\x04\x8e" + b"\xff" * 8 + b"x.",
    "text of 2**32 - 1": b"\x80\x02X\xff\xff\xff\xffx.",
    "a bytearray of 2**62": b"\x80\x05\x96" + struct.pack("<Q", 1 << 62) + b"x.",
    "a frame of 2**62": b"\x80\x04\x95" + struct.pack("<Q", 1 << 62) + b"N.",
    "a number of 2**31 bytes": b"\x80\x02\x8b\xff\xff\xff\x7fx.",
    "a decimal number of a million digits": b"\x80\x02L" + b"9" * 1_000_000 + b"L\n.",
    "bytearray(10**12)": TRILLION + b"R.",
    "bytearray(10**12) by NEWOBJ": TRILLION + b"\x81.",
    "a million marks": b"\x80\x02" + b"(" * 1_000_000 + b".",
    "a deep tuple as key": b"\x80\x02})" + b"\x85" * 100_000 + b"Ns.",
    "a doubling tuple as key": b"\x80\x02})" + b"2\x86" * 64 + b"Ns.",
    "deep lists": b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b"(.",
    "an empty pickle": b".",
    "no stop": b"\x80\x02N",
    "a numpy dtype of 10**9 bytes": G + b"numpy\ndtype\nX\x0b\0\0\0V1000000000\x89\x88\x87R.",
    "colliding keys": b"\x80\x02}(" + b"".join(
        pickle.encode_long(i * (2**61 - 1)).join((b"\x8a\x0a", b"N"))
        for i in range(2**14, 2**14 + 5000) if len(pickle.encode_long(i * (2**61 - 1))) == 10
    ) + b"u.",
}  # fmt: skip


@pytest.mark.parametrize("name", GREEDY)
@pytest.mark.parametrize("form", [as_zip, as_legacy], ids=["zip", "legacy"])
def test_a_greedy_file_ends_soon_and_takes_no_memory(name, form):
    content = form(GREEDY[name])
    tracemalloc.start()
    start = time.perf_counter()
    try:
        outcome = load(content)
    except ArchiveError as error:
        outcome = error
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert time.perf_counter() - start < 10
    assert peak < 256 * len(content) + (1 << 20)
    loadable = name in ("a memo index of 2**32 - 1", "a frame of 2**62")
    assert isinstance(outcome, ArchiveError) is not loadable


def storage(numel, last):
    return (
        b"(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\x000X\3\0\0\0cpu\x8a\x08"
        + struct.pack("<q", numel) + last + b"tQ"
    )  # fmt: skip


def tensor(numel, offset, sizes, strides, last=b""):
    def number(n):
        return b"\x8a\x09" + n.to_bytes(9, "little", signed=True)

    def many(values):
        return b"(" + b"".join(map(number, values)) + b"t"

    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + storage(numel, last) + number(offset)
        + many(sizes) + many(strides) + b"\x89Nt" + b"R."
    )  # fmt: skip


@pytest.mark.parametrize(
    ("numel", "offset", "sizes", "strides"),
    [
        (4, 0, (5,), (1,)), (4, 1, (4,), (1,)), (4, 0, (2, 2), (3, 2)), (4, -1, (1,), (1,)),
        (4, 0, (-1,), (1,)), (4, 0, (2,), (-1,)), (4, 0, (2,), (1, 1)), (4, 4, (), ()),
        (4, 0, (2**62, 4), (0, 1)), (4, 0, (0, 2**63), (1, 1)), (4, 0, (2**31, 2**31), (0, 0)),
        (5, 0, (1,), (1,)), (-1, 0, (1,), (1,)), (2**62, 0, (1,), (1,)), (4, 2**62, (1,), (1,)),
        (4, 0, (1,) * 65, (1,) * 65), (4, 0, (2,), (2**63,)),
    ],
)  # fmt: skip
def test_a_tensor_outside_its_storage_is_refused(numel, offset, sizes, strides):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", tensor(numel, offset, sizes, strides))
        archive.writestr("archive/data/0", bytes(16))
    with pytest.raises(ArchiveError):
        load(file.getvalue())
    good = tensor(4, 0, (2, 2), (2, 1))
    with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
        archive.writestr("archive/data.pkl", good)
        archive.writestr("archive/data/0", bytes(16))
    assert load(file.getvalue()).tolist() == [[0, 0], [0, 0]]


def test_an_old_file_cannot_claim_storages_larger_than_itself():
    for numel in (2**20, 2**40, 2**58):
        with pytest.raises(ArchiveError, match="larger than the file"):
            load(as_legacy(tensor(numel, 0, (1,), (1,), b"N")))


def test_entries_that_overlap_or_lie_are_refused():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in ("archive/data.pkl", "archive/data/0", "archive/data/1"):
            archive.writestr(name, b"N." + bytes(30))
    content = file.getvalue()
    first = content.index(b"PK\1\2")
    second = content.index(b"PK\1\2", first + 4)
    at = content[first + 42 : first + 46]
    shared = content[: second + 42] + at + content[second + 46 :]
    with pytest.raises(ArchiveError, match=r"overlap|header|damaged"):
        load(shared)
    large = struct.pack("<II", 1 << 30, 1 << 30)
    with pytest.raises(ArchiveError, match=r"takes 1073741824 bytes|damaged"):
        load(content[: second + 20] + large + content[second + 28 :])


def test_the_list_of_allowed_classes_is_the_users_and_has_limits():
    assert get_safe_globals() == []
    for never in (os.system, eval, exec, builtins.open, subprocess.Popen, getattr):
        with pytest.raises(ValueError, match="never allowed"):
            add_safe_globals([never])
    with safe_globals([(complex, "my.number")]):
        assert get_safe_globals() == [complex]
        assert load(as_zip(G + b"my\nnumber\nK\1K\2\x86R.")) == 1 + 2j
    assert get_safe_globals() == []
    add_safe_globals([complex])
    clear_safe_globals()
    assert get_safe_globals() == []


def test_every_listed_name_answers_nonsense_with_an_error():
    names = [*REBUILDERS, "_codecs.encode", "builtins.set", "builtins.complex", "torch.Size",
             "torch.device", "numpy.dtype", "numpy.core.multiarray.scalar",
             "collections.OrderedDict", "builtins.frozenset"]  # fmt: skip
    nonsense = [b"N", b"K\1", b"X\1\0\0\0x", b"]", b"}", b"\x88", b"(K\1K\2t", b"G" + b"\x7f" * 8]
    made = []
    for full in names:
        module, _, name = full.rpartition(".")
        call = f"c{module}\n{name}\n".encode()
        for value in nonsense:
            for count in (1, 2, 3, 4, 6, 7):
                pickled = b"\x80\x02" + call + b"(" + value * count + b"tR."
                machine = Machine(finder(REBUILDERS), lambda reference: None)
                with contextlib.suppress(ArchiveError):
                    made.append(machine.run(io.BytesIO(pickled)))
    kinds = {type(value).__name__ for value in made}
    assert kinds <= {"set", "frozenset", "complex", "Size", "OrderedDict", "device"}
