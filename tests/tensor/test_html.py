"""What a notebook shows: a small table, escaped, with the notebook's own colours."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import halon
from halon.tensor.printing import set_printoptions


class Table(HTMLParser):
    """Rows of cell texts, the caption, and a check that tags are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.caption, self.open = [], "", []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] == "td":
            self.rows[-1].append(data)
        elif self.open[-1] in ("caption", "div"):
            self.caption += data


def shown(t):
    return Table(t._repr_html_())


def test_a_matrix_is_a_table_under_a_caption():
    table = shown(halon.tensor([[1.0, -2.5], [0.0, 3.0]], requires_grad=True))
    assert table.rows == [["1.0000", "-2.5000"], ["0.0000", "3.0000"]]
    assert table.caption == "Tensor [2, 2], dtype=halon.float32, device=cpu, requires_grad=True"


@pytest.mark.parametrize(
    ("t", "rows"),
    [(halon.tensor(3.5), [["3.5000"]]), (halon.tensor([1, 20]), [["1", "20"]]),
     (halon.tensor([True]), [["True"]]),
     (halon.from_numpy(np.array([1 + 2j])), [["1.+2.j"]]),
     (halon.frombuffer(b"\x80\x3f\x00\x40", dtype=halon.bfloat16), [["1.", "2."]])],
)  # fmt: skip
def test_fewer_dimensions_and_other_dtypes_are_one_row(t, rows):
    assert shown(t).rows == rows


def test_a_large_matrix_shows_its_edges():
    table = shown(halon.arange(4000).reshape(40, 100))
    assert len(table.rows) == 7
    assert table.rows[0] == ["0", "1", "2", "…", "97", "98", "99"]
    assert set(table.rows[3]) == {"…"}
    assert "[40, 100]" in table.caption
    set_printoptions(edgeitems=1)
    try:
        assert shown(halon.arange(4000)).rows == [["0", "…", "3999"]]
    finally:
        set_printoptions(profile="default")


@pytest.mark.parametrize("t", [halon.zeros(2, 2, 2), halon.zeros(0, 3)])
def test_other_shapes_show_their_text(t):
    text = t._repr_html_()
    assert "<table" not in text
    assert str(list(t.shape)) in shown(t).caption
    assert "tensor(" in text


def test_text_is_escaped_and_colours_are_inherited():
    class Odd(halon.Tensor):
        pass

    Odd.__name__ = "<script>&"
    text = halon.Tensor._make_subclass(Odd, halon.ones(2))._repr_html_()
    assert "<script>" not in text
    assert "&lt;script&gt;&amp;" in text
    assert not re.search(r"#[0-9a-f]{3,6}|rgb|background:(?!transparent)|color:(?!inherit)", text)


def test_a_tensor_elsewhere_shows_its_device():
    assert "device=reference:0" in shown(halon.ones(2).to("reference:0")).caption
