"""``halon devices``: one line per registered driver."""

from __future__ import annotations

import dataclasses
import json
import shutil
import textwrap
from collections.abc import Sequence

from halon.hal.registry import DeviceRow, registry

_COLUMNS = ("name", "count", "state", "version", "origin", "reason")
_NARROWEST_REASON = 30


def run(as_json: bool = False) -> int:
    """run(as_json=False) -> 0, prints the table; every driver is loaded, none is opened."""
    rows = registry.table()
    if as_json:
        print(json.dumps([dataclasses.asdict(row) for row in rows], indent=2))
    else:
        print(table_text(rows, shutil.get_terminal_size((100, 24)).columns))
    return 0


def table_text(rows: Sequence[DeviceRow], width: int) -> str:
    """table_text(rows, width) -> str, columns under headings; long reasons wrap in theirs.

    >>> from halon.hal.registry import DeviceRow
    >>> print(table_text([DeviceRow("npu", "npu-plugin", "1.0", "ready", 2, "")], 80))
    NAME  COUNT  STATE  VERSION  ORIGIN      REASON
    npu   2      ready  1.0      npu-plugin
    """
    lines = [tuple(column.upper() for column in _COLUMNS)]
    lines += [tuple(str(getattr(row, column)) for column in _COLUMNS) for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(_COLUMNS) - 1)]
    indent = sum(widths) + 2 * len(widths)
    printed = []
    for line in lines:
        start = "".join(text.ljust(size + 2) for text, size in zip(line[:-1], widths, strict=True))
        reason = textwrap.wrap(line[-1], max(_NARROWEST_REASON, width - indent)) or [""]
        printed.append((start + reason[0]).rstrip())
        printed += [" " * indent + more for more in reason[1:]]
    return "\n".join(printed)
