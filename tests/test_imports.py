"""Imports point one way, whatever their form."""

import ast
from pathlib import Path

import contrastive_st

ROOT = Path(contrastive_st.__file__).parent
FILES = [path for path in ROOT.rglob("*.py") if path.parent.name.isidentifier()]  # not the code of checkpoints
LOW = {"errors", "precision", "prefetch", "vectors", "tokens", "distributed", "terminal", "lazy", "static_vectors"}
MAY_IMPORT = {
    "errors": set(),
    "terminal": {"errors"},
    "lazy": set(),
    "precision": {"errors"},
    "prefetch": set(),
    "vectors": {"errors", "precision"},
    "tokens": {"errors"},
    "static_vectors": {"errors", "vectors"},
    "distributed": {"errors"},
    "safety": LOW,
    "losses": LOW,
    "data": LOW,
    "models": LOW | {"safety", "losses"},
    "plots": {"safety"},
    "evaluation": LOW | {"plots", "safety", "losses", "data", "models"},
    "hub": LOW | {"plots", "safety", "losses", "data", "models", "evaluation"},
    "training": LOW | {"plots", "safety", "losses", "data", "models", "evaluation", "hub"},
    "search": LOW | {"safety", "data", "models"},
    "serve": LOW | {"models", "search"},
    "integrations": LOW | {"safety", "losses", "data", "models", "evaluation", "search"},
}
HOME = {name: module for module, names in contrastive_st._HOMES.items() for name in names}
ANYTHING = {"cli", "__init__", "__main__"}  # the command line and the public names stand above all


def imported_parts(path):
    """The parts of the package that a file imports: `from contrastive_st import data` counts, a relative one too."""
    package = path.relative_to(ROOT.parent).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "contrastive_st" else [module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            if name.startswith("contrastive_st."):
                part = name.split(".")[1]
                yield HOME.get(part, part).split(".")[0]


def test_imports_point_one_way():
    seen, wrong = set(), []
    for path in FILES:
        part = path.relative_to(ROOT).parts[0].removesuffix(".py")
        seen.add(part)
        if part not in ANYTHING:
            above = set(imported_parts(path)) - MAY_IMPORT[part] - {part, "__version__"}
            wrong += [f"{path.relative_to(ROOT)} imports {name}" for name in sorted(above)]
    assert not wrong, wrong
    assert seen - ANYTHING <= set(MAY_IMPORT)


def module_imports():
    """Module -> the modules of this package that are imported when it is (not those imported inside functions)."""
    modules = {}
    for path in FILES:
        name = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")
        modules[name] = path
    graph = {}
    for name, path in modules.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        found = set()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom):
                base = package.rsplit(".", node.level - 1)[0] if node.level else ""
                module = ".".join(filter(None, [base, node.module]))
                for alias in node.names:
                    found.add(f"{module}.{alias.name}" if f"{module}.{alias.name}" in modules else module)
            elif isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
        graph[name] = {module for module in found if module in modules} - {name}
    return graph


def test_no_modules_import_each_other_in_a_circle():
    graph, done = module_imports(), set()

    def visit(name, trail):
        assert name not in trail, " -> ".join([*trail[trail.index(name) :], name])
        if name not in done:
            for other in graph[name]:
                visit(other, [*trail, name])
            done.add(name)

    for name in graph:
        visit(name, [])
