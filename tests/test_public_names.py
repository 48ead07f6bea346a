"""Editors complete the public names, which are imported lazily, from the stub."""

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
