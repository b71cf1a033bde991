"""Imports point one way: the layout of the package, read from the source and walked."""

import ast
import subprocess
import sys
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BASE = {"layers", "envs", "errors", "input", "seeding"}
WORK = BASE | {"results", "task", "training", "data", "rl"}
PLAN = WORK | {"registry"}
# Area -> the areas it may import besides itself. An area is a module or package directly below
# nalu_ray, or `envs`; `sweep.ray` is one of its own, and so are the commands within a package.
MAY_IMPORT: dict[str, set[str]] = {
    "": {"api", "layers"},  # on first use: the package itself loads nothing
    "layers": set(),
    "envs": set(),
    "errors": set(),
    "input": {"errors"},
    "seeding": set(),
    "results": {"errors", "input"},
    "trained": {"errors", "results"},
    "task": WORK,
    "training": WORK - {"rl"},
    "data": WORK - {"rl", "training"},
    "rl": WORK,
    "tasks": WORK,
    "registry": WORK,
    "sweep": PLAN,
    "sweep.ray": PLAN | {"cluster", "sweep"},
    "command": PLAN | {"__main__", "sweep", "sweep.ray", "trained"},
    "__main__": {"command", "errors", "input"},  # and the command that is asked for
    "testing": PLAN | {"sweep", "sweep.ray"},
    "cluster": {"errors", "input"},
    **dict.fromkeys(("api", "report", "tune"), PLAN | {"command", "sweep"}),
    **dict.fromkeys(("predict", "watch"), PLAN | {"command", "sweep", "trained"}),
    **dict.fromkeys(
        ("data.__main__", "cluster.__main__", "results.__main__"),
        WORK | {"cluster", "command", "sweep"},
    ),
}
ONLY_FROM_RESULTS = {
    "tasks": {
        f"nalu_ray.results.{name}" for name in ("leaderboard", "publication", "published", "specs")
    }
}
# cluster: what Ray's autoscaler calls on the head of a cluster.
MAY_IMPORT_RAY = {"sweep.ray", "rl", "cluster"}
LAYERS_NEED = {"torch", "numpy"}


@dataclass(frozen=True)
class Import:
    """One import: the module named, and whether it happens as the importing module loads."""

    target: str
    line: int
    at_load: bool


def _modules() -> dict[str, Path]:
    found = {}
    for package in ("nalu_ray", "envs"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = _modules()


def _base(node: ast.ImportFrom, module: str) -> str:
    if not node.level:
        return node.module or ""
    package = module.split(".")
    drop = node.level - (MODULES[module].name == "__init__.py")
    return ".".join([*package[: len(package) - drop], *([node.module] if node.module else [])])


def _targets(node: ast.AST, module: str) -> list[str]:
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom():
            base = _base(node, module)
            names = [f"{base}.{alias.name}" for alias in node.names]
            return [name if name in MODULES else base for name in names]
        case ast.Call(
            func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            return [name]
    return []


def _is_type_checking(node: ast.AST) -> bool:
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
            return True
    return False


def _imports(module: str) -> list[Import]:
    found: list[Import] = []

    def walk(node: ast.AST, at_load: bool) -> None:
        line = getattr(node, "lineno", 0)
        found.extend(Import(name, line, at_load) for name in _targets(node, module))
        later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        orelse = set(map(id, node.orelse)) if isinstance(node, ast.If) else set()
        for child in ast.iter_child_nodes(node):
            typing_only = _is_type_checking(node) and id(child) not in orelse
            walk(child, at_load and not later and not typing_only)

    walk(ast.parse(MODULES[module].read_text(encoding="utf-8")), True)
    return found


IMPORTS = {module: _imports(module) for module in MODULES}


def _area(module: str) -> str:
    """Returns the area of one of our modules; "" for anything else and for bare nalu_ray."""
    first, _, rest = module.partition(".")
    if first == "envs":
        return "envs"
    if first != "nalu_ray":
        return ""
    if f"{rest}.".startswith("sweep.ray."):
        return "sweep.ray"
    return rest if rest.endswith(".__main__") else rest.split(".")[0]


def _loaded_with(module: str) -> set[str]:
    """Returns our modules among ``module`` and what holds it: importing a.b runs a first."""
    parts = module.split(".")
    return {".".join(parts[:n]) for n in range(1, len(parts) + 1)} & MODULES.keys()


def _reached(start: str, *, at_load: bool) -> dict[str, str]:
    """Returns every module reached from ``start``, ours or not, with the one that imports it."""
    by: dict[str, str] = {}
    todo = [(name, start) for name in _loaded_with(start)]
    while todo:
        module, importer = todo.pop()
        if module in by:
            continue
        by[module] = importer
        for item in IMPORTS.get(module, []):
            # what `import nalu_ray` offers by name is loaded by who asks for it alone
            if item.at_load or not (at_load or module == "nalu_ray"):
                todo += [(name, module) for name in {item.target} | _loaded_with(item.target)]
    return by


def _fail_on(wrong: list[str]) -> None:
    assert not wrong, "\n" + "\n".join(wrong)


def test_every_module_has_a_place() -> None:
    """A new module directly below nalu_ray states in MAY_IMPORT what it may import."""
    unplaced = {_area(module) for module in MODULES} - MAY_IMPORT.keys() - {""}
    assert not unplaced


@pytest.mark.parametrize("module", MODULES)
def test_direction(module: str) -> None:
    area = _area(module)
    allowed = MAY_IMPORT.get(area, set()) | {area, ""}
    _fail_on(
        [
            f"{module}:{item.line} imports {item.target}"
            for item in IMPORTS[module]
            # The next test says who imports tasks.
            if _area(item.target) not in allowed | {"tasks"}
        ]
    )


def _is_of_the_task(module: str, target: str) -> bool:
    if _area(module) != "tasks":
        return False
    folder = ".".join(module.split(".")[:3])
    if target == "nalu_ray.tasks":  # what all of them share
        return True
    return target.startswith("nalu_ray.tasks._") or f"{target}.".startswith(f"{folder}.")


def test_only_the_registry_imports_tasks() -> None:
    """A task imports its own folder and shared modules, whose names begin with ``_``."""
    _fail_on(
        [
            f"{module}:{item.line} imports {item.target}"
            for module, imports in IMPORTS.items()
            for item in imports
            if _area(item.target) == "tasks" and _area(module) != "registry"
            if not _is_of_the_task(module, item.target)
        ]
    )


@pytest.mark.parametrize(("area", "allowed"), ONLY_FROM_RESULTS.items())
def test_only_the_specs_of_results(area: str, allowed: set[str]) -> None:
    _fail_on(
        [
            f"{module}:{item.line} imports {item.target}"
            for module, imports in IMPORTS.items()
            for item in imports
            if _area(module) == area and _area(item.target) == "results"
            if item.target not in allowed
        ]
    )


def test_only_sweep_ray_and_rl_import_ray() -> None:
    _fail_on(
        [
            f"{module}:{item.line} imports {item.target}"
            for module, imports in IMPORTS.items()
            for item in imports
            if item.target.split(".")[0] == "ray" and _area(module) not in MAY_IMPORT_RAY
        ]
    )


def test_no_two_classes_of_the_package_have_one_name() -> None:
    """A class's name in an error or a search is one class; what is private counts too."""
    defined: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and _area(module) != "envs":  # usable alone
                defined.setdefault(node.name, []).append(f"{module}:{node.lineno}")
    twice = {name: places for name, places in defined.items() if len(places) > 1}
    assert not twice


def test_layers_need_torch_alone() -> None:
    ours = LAYERS_NEED | {"nalu_ray"} | sys.stdlib_module_names
    _fail_on(
        [
            f"{module}:{item.line} imports {item.target}"
            for module, imports in IMPORTS.items()
            for item in imports
            if _area(module) == "layers" and item.target.split(".")[0] not in ours
        ]
    )


@pytest.mark.parametrize("module", [name for name in MODULES if _area(name) == "results"])
def test_results_reach_neither_torch_nor_ray(module: str) -> None:
    heavy = {"torch", "torchvision", "ray"}
    _fail_on(
        [
            f"{module} reaches {name} by {importer}"
            for name, importer in _reached(module, at_load=False).items()
            if name.split(".")[0] in heavy
        ]
    )


def test_what_waits_for_trials_on_ray_loads_no_torch() -> None:
    """Every sweep starts such processes; tensorboardX loads torch."""
    reached = _reached("nalu_ray.sweep.ray.worker", at_load=True)
    assert not reached.keys() & {"torch", "torchvision", "tensorboardX"}


def test_no_cycles_while_loading() -> None:
    graph = {
        module: {item.target for item in imports if item.at_load and item.target in MODULES}
        - {module}
        for module, imports in IMPORTS.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


def test_tables_can_be_rebuilt_without_torch_and_ray() -> None:
    names = [name for name in MODULES if _area(name) == "results"] + ["nalu_ray.report"]
    blocked = "import sys; sys.modules.update(torch=None, ray=None); "
    done = subprocess.run(
        [sys.executable, "-c", blocked + "; ".join(f"import {name}" for name in names)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
