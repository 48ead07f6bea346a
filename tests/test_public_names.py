"""Editors complete the public names, which are imported lazily, from the stub."""

import re
from pathlib import Path

import jedi

import contrastive_st


def test_editors_complete_the_public_names():
    source = "import contrastive_st\ncontrastive_st."
    project = jedi.Project(contrastive_st.__path__[0] + "/..", smart_sys_path=False)
    completed = {name.name for name in jedi.Script(source, project=project).complete(2, len("contrastive_st."))}
    assert set(dir(contrastive_st)) <= completed
    assert "BertForCL" in completed
    described = jedi.Script("from contrastive_st import InfoNCE\nInfoNCE(", project=project).get_signatures(2, 8)
    assert "temperature" in [parameter.name for parameter in described[0].params]


def test_the_page_of_promises_lists_every_public_name():
    page = (Path(__file__).parents[1] / "docs/configuration.md").read_text(encoding="utf-8")
    table = page.partition("**Names.**")[2].partition("**Commands.**")[0]
    cells = [row.split("|")[2] for row in table.split("\n") if row.startswith("| `")]
    listed = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert listed == {name for name in dir(contrastive_st) if not name.startswith("_")}


def test_a_star_import_gives_every_name():
    names = {}
    exec("from contrastive_st import *", names)
    assert {name for name in dir(contrastive_st) if not name.startswith("_")} <= set(names)
    assert names["SentenceEncoder"] is contrastive_st.SentenceEncoder
