"""Imports point one way, whatever their form."""

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import contrastive_st

ROOT = Path(contrastive_st.__file__).parent
FILES = [path for path in ROOT.rglob("*.py") if path.parent.name.isidentifier()]  # not the code of checkpoints
LOW_MAY_IMPORT = {
    "citations": set(),
    "device": set(),
    "errors": set(),
    "options": {"errors"},
    "files": {"errors"},
    "forks": set(),
    "former": set(),
    "terminal": set(),
    "text_format": {"errors"},
    "commands": {"device", "errors", "options", "terminal", "text_format"},
    "prefetch": set(),
    "processors": set(),
    "random_state": set(),
    "vectors": {"device", "errors", "prefetch"},
    "tokens": {"errors"},
    "buckets": set(),
    "static_vectors": {"buckets", "errors", "files", "options", "terminal", "tokens", "vectors", "word_cache"},
    "word_cache": {"forks"},
    "speed": {"buckets", "device", "forks", "prefetch", "processors"},
    "distributed": {"errors"},
}
LOW = set(LOW_MAY_IMPORT)
MAY_IMPORT = {
    **LOW_MAY_IMPORT,
    "plots": {"files"},
    "losses": LOW,
    "data": LOW,
    "models": LOW | {"losses"},
    "training": LOW | {"plots", "losses", "data", "models"},
    "evaluation": LOW | {"plots", "losses", "data", "models"},
    "hub": LOW | {"plots", "losses", "data", "models", "training", "evaluation"},
    "scripts": LOW | {"plots", "losses", "data", "models", "training", "evaluation", "hub"},
    "classification": LOW | {"losses", "data", "models", "training", "evaluation", "hub"},
    "search": LOW | {"plots", "data", "models"},
    "serve": LOW | {"data", "models", "search", "classification"},
    "compare": LOW | {"plots", "data", "models", "training", "evaluation", "scripts", "search"},
    "integrations": LOW | {"losses", "data", "models", "evaluation", "search"},
}
#: Imports that point up or close a circle on purpose, always inside a function, and why
DELIBERATE = {
    ("contrastive_st.training.publishing", "contrastive_st.hub.cards"): "a run that publishes writes a card",
    ("contrastive_st.training.publishing", "contrastive_st.hub.push"): "a run that publishes pushes",
}
ANYTHING = {"cli", "doctor", "__init__", "__main__"}  # the command line and the public names stand above all


@cache
def stub_names(package):
    """The public names of a package and the modules that hold them, from its `__init__.pyi`."""
    found, stub = {}, Path(package, "__init__.pyi")
    for node in ast.parse(stub.read_text(encoding="utf-8")).body if stub.is_file() else ():
        if isinstance(node, ast.ImportFrom):
            found |= {alias.name: node.module for alias in node.names}
    return found


@cache
def modules():
    """Module name -> file."""
    return {
        ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path for path in FILES
    }


def imported(name, path, nodes):
    """The modules of this package that some nodes of a file import, public names traced to where they are defined."""
    known, package = modules(), name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            for alias in node.names if module in known else ():
                place = known[module]
                homes = stub_names(place.parent) if place.name == "__init__.py" else {}
                inner = f"{module}.{homes.get(alias.name, alias.name)}"
                yield inner if inner in known else module


@cache
def trees():
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in modules().items()}


def graph(everywhere):
    """Module -> the modules it imports: when it is imported itself, or `everywhere`, inside its functions too."""
    found = {}
    for name, path in modules().items():
        tree = trees()[name]
        found[name] = set(imported(name, path, ast.walk(tree) if everywhere else tree.body)) - {name}
    return found


def part(name):
    return name.split(".")[1] if "." in name else "__init__"


def test_imports_point_one_way():
    wrong, seen = [], set()
    for name, others in graph(everywhere=True).items():
        seen.add(part(name))
        if part(name) not in ANYTHING:
            above = {other for other in others if part(other) not in MAY_IMPORT[part(name)] | {part(name), "__init__"}}
            wrong += [f"{name} imports {other}" for other in sorted(above) if (name, other) not in DELIBERATE]
    assert not wrong, wrong
    assert seen - ANYTHING <= set(MAY_IMPORT)


def circle(edges):
    """A circle of modules that import each other, or None."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return error.args[1][::-1]
    return None


def test_no_modules_import_each_other_in_a_circle():
    edges = {name: others - {"contrastive_st"} for name, others in graph(everywhere=True).items()}
    for one, other in DELIBERATE:
        assert other in edges[one], f"{one} no longer imports {other}: take it off the list"
        edges[one].discard(other)
    assert circle(edges) is None, " -> ".join(circle(edges))


def test_what_is_imported_at_once_has_no_circle():
    assert circle(graph(everywhere=False)) is None


def test_a_circle_is_seen():
    assert circle({"a": {"b"}, "b": {"c", "d"}, "c": {"b"}, "d": set()}) in (["b", "c", "b"], ["c", "b", "c"])
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None
