"""The package as a whole: its public names, what importing it loads, who imports whom, and how long things are."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib.metadata import version
from operator import attrgetter
from pathlib import Path

import pytest

import loopmachine

SOURCE = Path(loopmachine.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text()) for path in FILES}

#: From what imports nothing to what everything may be imported by.
ORDER = [
    "errors",
    "frozen",
    "quick",
    "blocks",
    "history",
    "limits",
    "kinds",
    "records",
    "drafts",
    "events",
    "rules",
    "requests",
    "functions",
    "definition",
    "compiled",
    "guards",
    "updates",
    "table",
    "machine",
    "codec",
    "trace",
    "result",
    "tools",
    "wire",
    "notices",
    "bills",
    "envelope",
    "loop",
    "host",
    "sync_host",
    "async_host",
    "hosts",
    "mcp",
    "subrun",
    "models",
    "durable",
    "review",
    "testing",
    "demo",
    "demo_live",
    "cli",
    "__main__",
]

#: The one home of each library that is not in the standard one; attrs and msgspec are at home everywhere.
HOMES = {
    "transitions": {"machine"},
    "graphviz": {"review"},
    "pygraphviz": {"review"},
    "docstring_parser": {"tools"},
    "pydantic": {"tools"},
    "mcp": {"mcp"},
    "openai": {"models"},
    "anthropic": {"models"},
    "google": {"models"},
    "pytest": {"testing"},
}


def test_the_public_names_are_these() -> None:
    """A name more or less is a decision."""
    assert sorted(loopmachine.__all__) == [
        "ANTHROPIC",
        "Advance",
        "Budget",
        "Call",
        "CallResult",
        "CancelToken",
        "Context",
        "Decision",
        "Definition",
        "Denied",
        "GEMINI",
        "History",
        "ImageBlock",
        "Loop",
        "ModelError",
        "OPENAI_CHAT",
        "OPENAI_RESPONSES",
        "PLAIN",
        "Policy",
        "Resolution",
        "Result",
        "Row",
        "Snapshot",
        "Spend",
        "State",
        "Status",
        "TOOL_LOOP",
        "TextBlock",
        "Tool",
        "Turn",
        "Usage",
        "advance",
        "errors",
        "events",
        "guards",
        "loop_tool",
        "notices",
        "replay",
        "requests",
        "run",
        "run_async",
        "tool",
        "updates",
    ]
    assert [name for name in loopmachine.__all__ if not hasattr(loopmachine, name)] == []


def test_the_version_is_that_of_the_distribution() -> None:
    """It is written in one place."""
    assert loopmachine.__version__ == version("loopmachine")


@pytest.mark.parametrize("name", ["run", "run_async"])
def test_the_hosts_take_the_same_parameters(name: str) -> None:
    """Those of the design, all but the model and the prompt by keyword."""
    parameters = inspect.signature(getattr(loopmachine, name)).parameters.values()
    keywords = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
    others = [one.name for one in parameters if one.kind is not one.KEYWORD_ONLY]
    wanted = "tools budget policy wire history system cancel approve context price observe definition clock loop"
    assert (others, keywords) == (["model", "prompt"], wanted.split())


HEAVY = """
    asyncio concurrent.futures.thread docstring_parser graphviz loopmachine.testing mcp sqlite3
    loopmachine.wire.anthropic_stream loopmachine.wire.gemini_stream
    loopmachine.wire.openai_chat_stream loopmachine.wire.openai_responses_stream
"""


def test_importing_the_library_loads_nothing_heavy() -> None:
    """What is only needed to draw, to parse docstrings, for streams, or by ``run_async`` comes when it is needed."""
    code = f"import sys, loopmachine; print(*(name for name in {HEAVY.split()!r} if name in sys.modules))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout.split() == []


def test_of_tools_and_wires_only_what_they_export_is_an_attrs_class() -> None:
    """Attrs takes half a millisecond to make a class, at each import; a Struct is made thirty times as fast."""
    classes = (
        node
        for path in FILES
        for node in ast.walk(TREES[path])
        if path.parent.name in ("tools", "wire") and isinstance(node, ast.ClassDef)
    )
    made = {one.name for one in classes if any("attrs." in ast.unparse(by) for by in one.decorator_list)}
    assert made - {*loopmachine.tools.__all__, *loopmachine.wire.__all__} == set()


# --- who imports whom -------------------------------------------------------------------------------------


def module_of(path: Path) -> str:
    """The dotted name of a file within the package, blank for the package itself."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {module_of(path) for path in FILES}


def imports(tree: ast.AST) -> Iterator[str]:
    """The dotted names that are imported anywhere in a file, those inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert (node.level, node.module is None) == (0, False), "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_imports(path: Path) -> set[str]:
    """The modules of this package that a file imports."""
    found = {name.removeprefix("loopmachine.") for name in imports(TREES[path]) if name.startswith("loopmachine.")}
    return {name if name in NAMES else name.rpartition(".")[0] for name in found}


def test_every_module_has_its_place_in_the_order() -> None:
    """A new one has to be given one."""
    assert {name.partition(".")[0] for name in NAMES - {""}} - set(ORDER) == set()


def test_imports_go_one_way() -> None:
    """A module imports only what stands before it, at its top or when it is called."""
    against = {
        (module_of(path), imported)
        for path in FILES
        for imported in own_imports(path)
        if module_of(path)
        and ORDER.index(imported.partition(".")[0]) >= ORDER.index(module_of(path).partition(".")[0])
        and imported.partition(".")[0] != module_of(path).partition(".")[0]
    }
    assert against == set()


def test_the_modules_of_a_package_import_one_another_one_way() -> None:
    """There is no cycle anywhere, so each can be read before those that use it."""
    graph = {module_of(path): own_imports(path) - {module_of(path)} for path in FILES}
    assert set(TopologicalSorter(graph).static_order()) == NAMES


def test_each_library_has_one_home() -> None:
    """What is not of the standard library is imported in one place, attrs and msgspec aside."""
    homes: dict[str, set[str]] = {}
    for path in FILES:
        for imported in imports(TREES[path]):
            library = imported.partition(".")[0]
            if library not in sys.stdlib_module_names and library not in ("loopmachine", "attrs", "msgspec"):
                homes.setdefault(library, set()).add(module_of(path).partition(".")[0])
    assert homes == HOMES


# --- how long things are, and whether they say what they are ------------------------------------------------

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> Iterator[Function]:
    """All functions of a file, those inside others too."""
    for node in ast.walk(TREES[path]):
        if isinstance(node, Function):
            yield node


def length(function: Function) -> int:
    """How many lines a function has, its decorators, its signature and its docstring included."""
    first = min([function.lineno, *(one.lineno for one in function.decorator_list)])
    return (function.end_lineno or first) - first + 1


def test_no_function_is_longer_than_forty_lines_and_no_module_than_four_hundred() -> None:
    """Most functions have fewer than ten."""
    long = {f"{path.name}:{one.name}": length(one) for path in FILES for one in functions(path) if length(one) > 40}
    modules = {path.name: len(path.read_text().splitlines()) for path in FILES}
    lengths = [length(one) for path in FILES for one in functions(path)]
    assert (long, {name: lines for name, lines in modules.items() if lines > 400}) == ({}, {})
    assert sum(one < 10 for one in lengths) > len(lengths) / 2


def public(body: list[ast.stmt], where: str) -> Iterator[str]:
    """The dotted names of the public classes, functions and methods here."""
    for node in body:
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
            yield f"{where}{node.name}"
            if isinstance(node, ast.ClassDef):
                yield from public(node.body, f"{where}{node.name}.")


def test_everything_public_says_what_it_is() -> None:
    """Every module, class, function and method; one that overrides another may leave it to that."""
    silent = []
    for path in FILES:
        if path.stem == "__main__":  # to import it is to run it
            continue
        module = importlib.import_module(f"loopmachine.{module_of(path)}".rstrip("."))
        named = [(name, attrgetter(name)(module)) for name in public(TREES[path].body, "")]
        silent += [f"{module.__name__}:{name}" for name, one in [("", module), *named] if not inspect.getdoc(one)]
    assert silent == []


def test_ci_fails_where_shared_is_not_beside_the_clone() -> None:
    """The tests that read it would be skipped, and nobody would know."""
    root = SOURCE.parents[1]
    done = subprocess.run(
        ["bash", str(root / ".ci" / "run")],
        env={**os.environ, "SHARED": str(root / "nowhere")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "shared/ is not beside this clone" in done.stderr) == (1, True)


def test_what_is_installed_is_what_the_lock_says() -> None:
    """Both commands install with --locked."""
    makefile = (SOURCE.parents[1] / "Makefile").read_text()
    assert ("uv sync --quiet --locked" in makefile, makefile.count("uv sync")) == (True, 1)
