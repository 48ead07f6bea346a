"""The sample files in `examples/data` are what the documentation says they are."""

from pathlib import Path

import pytest

from contrastive_st.data.reading import open_table
from contrastive_st.data.reading.memory import column_roles

FOLDER = Path(__file__).parents[2] / "examples" / "data"
KINDS = {
    "sentences.txt": "texts",
    "pairs.csv": "pairs",
    "triplets.csv": "triplets",
    "scored_pairs.csv": "scored_pairs",
    "labelled_texts.csv": "labelled_texts",
}


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_a_sample_is_of_its_kind(name, kind):
    roles = column_roles([row.cells for row in open_table(FOLDER / name)], source=name)
    assert roles.kind == kind
    assert not roles.left_out
