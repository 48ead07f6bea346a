"""How far it is from a file to its rows, counted in the functions that are entered; and one name for one thing."""

import ast
import sys
from collections import Counter
from pathlib import Path

import pytest

import contrastive_st
from contrastive_st.data import read_examples

ROOT = Path(contrastive_st.__file__).parent
FILES = [
    *(ROOT / "data" / "reading").glob("*.py"),
    *(ROOT / "data" / f"{name}.py" for name in ("roles", "profile", "labels", "text_columns", "table_writers")),
    *(ROOT / "search" / f"{name}.py" for name in ("filters", "values")),
]


@pytest.mark.parametrize(("columns", "most"), [(None, 45), (["anchor", "positive"], 25)])
def test_reading_60_rows_enters_few_functions(tmp_path, columns, most):
    path = tmp_path / "pairs.csv"
    path.write_text("id,anchor,positive\n" + "".join(f"{i},why {i}?,because {i}\n" for i in range(60)))
    entered = set()

    def look(frame, event, arg):
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT)) and frame.f_code.co_name[0] != "<":
            entered.add(frame.f_code)

    read_examples(str(path), columns)
    sys.setprofile(look)
    try:
        rows, _ = read_examples(str(path), columns)
    finally:
        sys.setprofile(None)
    assert len(rows) == 60
    assert 0 < len(entered) <= most, sorted(code.co_name for code in entered)


def test_no_two_files_define_one_name():
    defined = Counter()
    for path in FILES:
        body = ast.parse(path.read_text(encoding="utf-8")).body
        kinds = (ast.FunctionDef, ast.ClassDef)
        defined.update({node.name for node in body if isinstance(node, kinds)})
    assert len(defined) > 100
    assert [name for name, count in defined.items() if count > 1] == []
