"""Shared fixtures: tiny models from configs, a tiny tokenizer, the real data where it is at hand. No network."""

import functools
import gc
import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # a core a worker; and a child forked beside a pool of threads would hang

import logging
from collections import Counter
from pathlib import Path

import pytest
import warm_python

SENTENCES = [
    "the cat sat on the mat",
    "a dog ran far away today",
    "rain fell on the old town",
    "she reads a long book",
    "the town was quiet",
    "a cat and a dog",
    "he wrote the book on a rainy day in the old quiet town",
    "today the rain ran away",
]

os.fsync = lambda descriptor: None  # what tests write needs to survive no loss of power

# Here and below, torch and transformers are imported where they are used: the process that only gives out the tests
# of several workers starts them seconds earlier.


@functools.cache
def device_name():
    """Where tests marked `cuda` run: on a GPU, if there is one. `cpu` runs them on the CPU, to see that they do run."""
    import torch

    return os.environ.get("CONTRASTIVE_ST_TEST_DEVICE") or ("cuda" if torch.cuda.is_available() else None)


def pytest_configure(config):
    config.option.loadscopereorder = False  # pytest-xdist gives out files in the order that follows
    if (config.getoption("numprocesses", 0) or 0) > 1 and not hasattr(config, "workerinput"):
        warm_python.share()


def pytest_collection_modifyitems(items):
    """The files that take long come first, so that both workers end at about the same time."""
    first = tuple(f"tests/{folder}/" for folder in ("integration", "meetings", "training", "speed", "models"))
    items.sort(key=lambda item: not item.nodeid.startswith(first))
    if device_name() is None:
        for item in items:
            if "cuda" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="no GPU is at hand"))


def pytest_collection_finish():
    """Accelerate collects garbage before each run; without this it looks at all tests and libraries, for a second.

    And the modules of the tests have imported what sets variables, see below.
    """
    warm_python.put_back()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """So too after each file, for the modules that its tests have imported; what these have set leaves with each test.

    A command of this package makes other libraries silent, kreuzberg sets LD_LIBRARY_PATH, torch, peft and gradio set
    theirs: all processes that later tests start would be new to the warm ones, and import everything again.
    """
    warm_python.put_back()
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def pytest_terminal_summary(terminalreporter):
    """What tests recorded: how many snippets of README and docs ran, and why others did not; how many meetings held."""
    passed = [report for report in terminalreporter.stats.get("passed", []) if report.when == "call"]
    counts = Counter(recorded for report in passed for recorded in report.user_properties)
    for (name, value), count in counts.items():
        terminalreporter.write_line(f"{name} {value}: {count}")


@pytest.fixture
def device():
    import torch

    return torch.device(device_name())


@pytest.fixture(autouse=True)
def _seeded():
    import torch

    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _no_transformers_warnings(request):
    """A warning that transformers logs about our own use of it is an error."""
    if "allow_warnings" in request.keywords:
        yield
        return
    import transformers

    records = []

    class Handler(logging.Handler):
        def emit(self, record):
            records.append(record.getMessage())

    handler = Handler(logging.WARNING)
    logger = logging.getLogger("transformers")
    if logger.level != logging.WARNING:  # to set it clears what thousands of loggers have cached
        transformers.utils.logging.set_verbosity_warning()
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)
    assert not records, f"transformers warned: {records}"


@pytest.fixture(scope="session")
def tokenizer():
    from contrastive_st.data import train_wordpiece

    return train_wordpiece(SENTENCES * 3, vocab_size=120, max_length=16)


@pytest.fixture
def bert_config(tokenizer):
    from small_checkpoints import tiny_bert

    return tiny_bert(tokenizer, num_hidden_layers=2)


def save_both(model, tokenizer, folder):
    """Save a model and its tokenizer; returns the folder."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def checkpoint(bert_config, tokenizer, tmp_path):
    """The folder of a small BERT with mean pooling."""
    from contrastive_st import BertForCL

    return save_both(BertForCL(bert_config, pooling="mean"), tokenizer, tmp_path / "model")


@pytest.fixture
def text_file(tmp_path):
    """A file of a few sentences, one per line."""
    path = tmp_path / "text.txt"
    path.write_text("\n".join(SENTENCES), encoding="utf-8")
    return path


@pytest.fixture(autouse=True, scope="session")
def _one_initdb():
    """Servers that a test starts itself survive no loss of power, and their data folders are copies of a first one."""
    from store_places import quick_servers

    with quick_servers():
        yield


@pytest.fixture(autouse=True, scope="session")
def _one_small_model():
    """The small model of the package is read from its files once; what opens it has a table and caches of its own.

    Commands in other processes read it, and so do tests of its files, which are copies of them.
    """
    from contrastive_st.files.folders import SHIPPED
    from contrastive_st.static_vectors import StaticVectors

    read, small = StaticVectors.from_pretrained, SHIPPED.resolve()

    @functools.cache
    def first():
        return read(small)

    def opened(cls, folder, name=None):
        if cls is not StaticVectors or Path(folder).resolve() != small:
            return read.__func__(cls, folder, name)
        made = first()
        return cls(
            made.embeddings.copy(), made.tokenizer, made.weights, made.normalize, Path(folder), name, made.reading
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StaticVectors, "from_pretrained", classmethod(opened))
        yield


@pytest.fixture(scope="session")
def one_server():
    """The embedded server of this process of tests; `server` is it, with an empty database."""
    from store_places import store_place

    with store_place() as folder:
        from contrastive_st.search.postgres.server import EmbeddedServer

        with EmbeddedServer(folder) as running:
            yield running


@pytest.fixture(scope="module")
def server(one_server):
    """An embedded server with an empty database, kept up between the tests of a module."""
    from store_places import emptied

    with emptied(one_server):
        yield one_server


@pytest.fixture(scope="module")
def place(server):
    """The folder of `server`."""
    return str(server.folder)


@pytest.fixture
def small_documentation(monkeypatch):
    """A documentation of a few sentences in place of all that is installed, whose reading takes half a minute."""
    from contrastive_st.data import DocPair

    pairs = [DocPair(f"{a} {i}", f"{b} and more {i}", f"p{i % 4}.m{i % 3}.f{i}")
             for i, (a, b) in enumerate((a, b) for a in SENTENCES for b in SENTENCES)]  # fmt: skip
    split = lambda found, heldout=1000: (list(found)[:40], list(found)[40:])
    homes = ("data", "data.docs_sets", "evaluation.docs_search", "scripts.rows")
    for module in (f"contrastive_st.{name}" for name in homes):
        monkeypatch.setattr(f"{module}.installed_docs", lambda *args, **kwargs: pairs)
        monkeypatch.setattr(f"{module}.split_pairs", split)


@pytest.fixture(autouse=True, scope="session")
def _real_data():
    """The folder with the real data sets: commands measure on it in no test but those that take `data_root`."""
    return os.environ.pop("CONTRASTIVE_ST_DATA", None)


@pytest.fixture
def data_root(_real_data, monkeypatch):
    """The folder with the real data sets, or a skip."""
    if not _real_data or not Path(_real_data).is_dir():
        pytest.skip("real data is not at hand: set CONTRASTIVE_ST_DATA")
    monkeypatch.setenv("CONTRASTIVE_ST_DATA", _real_data)
    return Path(_real_data)


@pytest.fixture(autouse=True, scope="session")
def _own_caches(tmp_path_factory):
    """Nothing is read from or left in the user's caches; the workers of a run read the installed documentation once."""
    import datasets

    datasets.config.HF_DATASETS_CACHE = tmp_path_factory.mktemp("datasets")
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    os.environ["CONTRASTIVE_ST_CACHE"] = str(shared / "cache")
