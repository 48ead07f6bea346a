"""The rules that make pairs of docstrings, the walk over files, the cache and the split, on a tiny tree."""

import importlib
import json
import random
import subprocess
import sys

import pytest

from contrastive_st.data.docstrings import pair_of
from contrastive_st.data.documentation import DocPair, installed_docs, split_pairs

MODULE = importlib.import_module("contrastive_st.data.documentation")  # the package has a function of that name
TITLE = "Compute the height of the tide."
PROSE = "The height is the sum of the waves that the moon and the sun raise."


def pair(*paragraphs):
    return pair_of("\n\n".join(paragraphs))


# ---- one docstring


def test_the_first_paragraph_and_the_next_are_joined_to_a_line_each():
    docstring = """Compute the height
        of the tide.

        The height is the sum of the waves
        that the moon and the sun raise.
    """
    assert pair_of(docstring) == (TITLE, PROSE)


@pytest.mark.parametrize(
    ("marked", "plain"),
    [
        ("``height``", "height"),
        ("`height`", "height"),
        ("`~tide.height`", "height"),
        (":class:`Height`", "Height"),
        (":py:func:`~tide.sea.height`", "height"),
        (":func:`tide.height`", "tide.height"),
        (":ref:`the height <tide-height>`", "the height"),
        ("[`~tide.Height`]", "Height"),
        ("[height](https://tide.example/height)", "height"),
        ("`height <https://tide.example>`_", "height"),
        ("**height** [1]_", "height"),
        ("*height* (https://tide.example)", "height"),
        ("*args and **kwargs", "*args and **kwargs"),
    ],
)
def test_markup_is_stripped(marked, plain):
    text = "The {} is the sum of the waves that the moon raises."
    assert pair(TITLE, text.format(marked)) == (TITLE, text.format(plain))


def test_long_texts_end_with_a_whole_sentence_and_lists_are_cut_off():
    assert pair(TITLE, " ".join([PROSE] * 20)) == (TITLE, " ".join([PROSE] * 8))
    assert pair(TITLE, PROSE[:-1] + ", " + "and then " * 60 + "no more.") is None
    assert pair(TITLE, PROSE + " These are:\n- the lunar wave\n- the solar wave") == (TITLE, PROSE)


# ---- many files


def source_of(title, text):
    return f'"""{title}\n\n{text}\n"""\n'


A_PY = f'''
{source_of("The module of tides.", PROSE.replace("height", "module"))}

class Gauge:
    """A gauge of the tide.

    {PROSE.replace("height", "gauge")}
    """

    async def read(self):
        """Read the gauge once.

        {PROSE.replace("height", "reading")}
        """
        def inner():
            """An inner helper function.

            {PROSE.replace("height", "helper")}
            """

if True:
    def height():
        """Compute the HEIGHT of the tide.

        {PROSE}
        """

add_docstr(sea.level, """level(x) -> float

The level of the sea.

{PROSE.replace("height", "level")}
""".format(**common))
add_newdoc("sea", "bed", ("depth", """
The depth of the sea.

{PROSE.replace("height", "depth")}
"""))
print("""A string that is printed.

{PROSE.replace("height", "string")}
""")
raise SystemExit("a corpus is read and never imported")
'''
FILES = {  # what the walk has to find, to skip and to survive
    "a.py": A_PY,
    "b/__init__.py": source_of("The package of tides.", PROSE.replace("height", "package")),
    "b/same_title.py": source_of(TITLE, PROSE.replace("height", "other height")),
    "b/same_text.py": source_of("Another title for it.", PROSE.replace("height", "HEIGHT")),
    "b/tests/test_b.py": source_of("A test of the tide.", PROSE.replace("height", "test")),
    "b/_vendor/c.py": source_of("A copy of the tide.", PROSE.replace("height", "copy")),
    "b/generated.py": "# Automatically generated.\n" + source_of("A generated file.", PROSE.replace("sum", "total")),
    "b/broken.py": source_of("A file that is broken.", PROSE.replace("height", "error")) + "def (:\n",
    "b/null.py": source_of("A file with a null.", PROSE.replace("height", "null")) + "x = '\0'\n",
    "b/latin.py": source_of("A file in Latin-1.", PROSE.replace("height", "h\xe9ight")).encode("latin-1"),
    "b/escape.py": source_of("A file that escapes.", PROSE.replace("height", "escape")) + 'x = "\\w"\n',
    "b/notes.txt": source_of("Not a Python file.", PROSE.replace("height", "note")),
}
SOURCES = ["a", "a.Gauge", "a.Gauge.read", "a.height", "sea.level", "sea.bed.depth", "b", "b.escape"]


@pytest.fixture
def tree(tmp_path):
    for name, content in FILES.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return tmp_path / "site"


def test_what_a_tree_of_packages_gives(tree, recwarn):
    pairs = installed_docs(roots=[tree], workers=1)
    assert [pair.source for pair in pairs] == SOURCES
    assert pairs[3] == DocPair("Compute the HEIGHT of the tide.", PROSE, "a.height")
    assert not recwarn.list


def test_workers_change_nothing(tree, monkeypatch):
    for i in range(230):
        text = PROSE.replace("height", f"height {i}")
        (tree / f"m{i}.py").write_text(source_of(f"A module of the package, of number {i}.", text))
    alone = installed_docs(roots=[tree], workers=1)
    monkeypatch.setattr(MODULE, "pairs_of_files", None)  # so that no pair below comes from this process
    assert installed_docs(roots=[tree], workers=3) == alone
    assert len(alone) == len(SOURCES) + 230


def test_a_script_without_a_main_guard_can_call_it(tree, tmp_path):
    for i in range(120):
        (tree / f"m{i}.py").write_text("")
    script = tmp_path / "script.py"
    script.write_text(
        "from contrastive_st.data import installed_docs\n"
        f"print(len(installed_docs(roots=[{str(tree)!r}], workers=2)))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"{len(SOURCES)}\n", "")


# ---- the cache


@pytest.fixture
def installed(tree, monkeypatch):
    """The tiny tree is what is installed; gives the list of the times it was read."""
    reads = []
    extract = MODULE._extract
    monkeypatch.setattr(MODULE, "installed_roots", lambda: [tree])
    monkeypatch.setattr(MODULE.importlib.metadata, "distributions", lambda **_: [])
    monkeypatch.setattr(MODULE, "_extract", lambda *args: reads.append(args) or extract(*args))
    return reads


def test_the_second_call_reads_the_cache(installed, tmp_path, monkeypatch):
    first = installed_docs(tmp_path / "cache")
    assert installed_docs(tmp_path / "cache") == first
    assert isinstance(first[0], DocPair)
    assert len(installed) == 1
    (path,) = (tmp_path / "cache").iterdir()
    assert MODULE.environment_fingerprint() in path.name
    monkeypatch.setattr(MODULE, "EXTRACTOR_VERSION", -1)
    installed_docs(tmp_path / "cache")
    assert len(installed) == 2, "other rules, other cache"


@pytest.mark.parametrize("content", ["", "[[1, 2", '{"a": 1}', '[["title"]]', "7"])
def test_a_cache_that_is_not_whole_is_written_again(installed, tmp_path, content):
    pairs = installed_docs(tmp_path)
    (path,) = tmp_path.glob("installed_docs-*.json")
    path.write_text(content)
    assert installed_docs(tmp_path) == pairs
    assert [DocPair(*row) for row in json.loads(path.read_text())] == pairs


def test_the_fingerprint_follows_what_is_installed(monkeypatch):
    before = MODULE.environment_fingerprint()
    assert before == MODULE.environment_fingerprint()
    monkeypatch.setattr(MODULE.importlib.metadata, "distributions", lambda **_: [])
    assert MODULE.environment_fingerprint() != before


# ---- the split


PAIRS = [DocPair(f"title {i}", f"text {i} {i + 100} {i + 200} {i + 300}", str(i)) for i in range(50)]


def test_the_split_does_not_depend_on_order_titles_or_sources():
    train, test = split_pairs(PAIRS, heldout=10)
    assert (len(train), len(test)) == (40, 10)
    assert sorted(train + test) == sorted(PAIRS)
    shuffled = random.Random(0).sample(PAIRS, len(PAIRS))
    assert split_pairs(shuffled, heldout=10)[1] == test
    renamed = [DocPair(f"other {i}", pair.text, "elsewhere") for i, pair in enumerate(PAIRS)]
    assert [pair.text for pair in split_pairs(renamed, heldout=10)[1]] == [pair.text for pair in test]
    assert split_pairs(PAIRS, heldout=5)[1] == test[:5]


def test_training_pairs_share_nothing_with_held_out_ones():
    _, test = split_pairs(PAIRS, heldout=3)
    twins = [
        DocPair(test[0].title.upper(), "text of a twin", "t"),
        DocPair("title of a twin", test[1].text.upper(), "t"),
    ]
    train, again = split_pairs(PAIRS + twins, heldout=3)
    held = {string.casefold() for pair in again for string in pair[:2]}
    assert again == test, "the texts of the twins were to sort behind; choose others"
    assert not any({pair.title.casefold(), pair.text.casefold()} & held for pair in train)
    assert len(train) == 47


def test_no_near_copy_crosses_the_split():
    """Against a plain loop over sets of words, on pairs drawn from few words, of which many are near copies."""
    words = [f"w{i}" for i in range(40)]
    rng = random.Random(0)
    drawn = [rng.sample(words, 12) for _ in range(60)]
    varied = [[*rng.sample(row, 9), *rng.sample(words, rng.randrange(6))] for row in drawn for _ in range(3)]
    pairs = [DocPair(f"title {i}", " ".join(row).upper(), "s") for i, row in enumerate(drawn + varied)]
    train, test = split_pairs(pairs, heldout=30)
    sets = lambda pair: [set(pair.text.lower().split()), {*pair.title.split(), *pair.text.lower().split()}]
    near = lambda a, b: any(len(x & y) / len(x | y) >= 0.5 for x, y in zip(sets(a), sets(b), strict=True))
    assert train == [pair for pair in pairs if pair not in test and not any(near(pair, held) for held in test)]
    assert len(train) < len(pairs) - 40
