"""How a notebook shows a tensor: a table of its values under a line that describes it."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from halon.tensor.printing import get_printoptions, host_values, tensor_repr, value_format

#: only borders and alignment: the colours are the notebook's, so dark themes work
_STYLE = "border:1px solid; border-color:inherit; padding:0.1em 0.5em; text-align:right;"
_ELLIPSIS = "…"


def tensor_html(t: Any) -> str:
    """tensor_html(t) -> str, what Jupyter shows for ``t``: a table up to two dimensions.

    Large tensors show the items at their edges, as printing does; tensors of more dimensions and
    empty ones show their text.

    >>> import halon
    >>> "<caption" in halon.ones(2, 2)._repr_html_()
    True
    """
    caption = html.escape(_caption(t))
    if t.dim() > 2 or not t.numel():
        return f"<div>{caption}<pre>{html.escape(tensor_repr(t))}</pre></div>"
    values = np.atleast_2d(host_values(t))
    summarize = values.size > get_printoptions().threshold
    text = value_format(values, summarize)
    columns = _shown(values.shape[1], summarize)
    rows = []
    for i in _shown(values.shape[0], summarize):
        row = None if i is None else values[i].tolist()
        cells = [_ELLIPSIS if row is None or j is None else text(row[j]) for j in columns]
        rows.append("<tr>" + "".join(map(_cell, cells)) + "</tr>")
    return (
        '<table style="border-collapse:collapse; color:inherit; background:transparent;">'
        f'<caption style="text-align:left; color:inherit;">{caption}</caption>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _shown(size: int, summarize: bool) -> list[int | None]:
    """The indices shown of a dimension; None stands for those left out."""
    edge = get_printoptions().edgeitems
    if not summarize or size <= 2 * edge:
        return list(range(size))
    return [*range(edge), None, *range(size - edge, size)]


def _cell(text: str) -> str:
    return f'<td style="{_STYLE}">{html.escape(text.strip())}</td>'


def _caption(t: Any) -> str:
    parts = [f"{type(t).__name__} {list(t.shape)}", f"dtype={t.dtype!r}", f"device={t.device}"]
    return ", ".join([*parts, f"requires_grad={t.requires_grad}"])
