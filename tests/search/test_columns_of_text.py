"""Several columns of a corpus are one text; unique identifiers are not suggested as a text."""

import pytest

from contrastive_st import InputError
from contrastive_st.search.documents import open_corpus


def test_several_columns_are_one_text_with_their_names(tmp_path):
    path = tmp_path / "talks.csv"
    path.write_text("id,title,body,year\n1,Tides, The moon pulls. ,1999\n2,,Rain falls.,2004\n3,,,2005\n")
    read = [(one.text, one.metadata) for one in open_corpus(str(path), column=["title", "body"]).read()]
    assert read == [("title: Tides\nbody: The moon pulls.", {"id": 1, "year": 1999}),
                    ("body: Rain falls.", {"id": 2, "year": 2004})]  # fmt: skip
    assert [one.text for one in open_corpus(str(path), column="body").read()] == ["The moon pulls.", "Rain falls."]
    with pytest.raises(InputError, match="'bod'"):
        list(open_corpus(str(path), column=["title", "bod"]).read())


def test_identifiers_are_not_suggested_as_a_text(tmp_path):
    path = tmp_path / "parts.csv"
    path.write_text("sku,remark\n" + "".join(f"AB-{i:030d},rusty {i}\n" for i in range(9)))
    with pytest.raises(InputError, match="--columns remark"):
        list(open_corpus(str(path)).read())
