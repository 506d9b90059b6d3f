"""The shape of the house: functions and files stay short, and a room imports only what stands before it.

Read from the sources, so that an import inside a function counts like any other; what stands under
``if TYPE_CHECKING:`` does not run and does not count."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

import pytest
from sources import room, sources

LONGEST_FUNCTION = 60  # lines, with its docstring
LONGEST_FILE = 320
DEEPEST = 5  # for, while, if, with and try inside each other; an elif is no deeper than its if
WIDEST = 120  # columns, outside of `# fmt: off` (tables)

# a room imports only what stands before it; "package" is tinygrad_attn/__init__.py, the door of a user's program
# fmt: off
ROOMS = ["show", "autodiff", "attention", "files", "nn", "optim", "tasks", "probe", "programs", "package",
         "train", "lab", "pages", "sweep", "cli"]
# the reading order of the engine: a file imports only what stands before it; ops/ is one station
ENGINE = ["arrays", "blas", "origin", "switch", "mode", "random", "graph", "errors", "dtypes", "recording", "operation", "ops",
          "walk", "backward", "protocols", "operators", "tensor", "functions", "create", "derivatives", "testing"]
# fmt: on

# what is left of an older order: the list shrinks, and a name that is no longer needed fails the test
LONG: set[str] = set()
WIDE: set[str] = set()  # rooms
DEEP: set[str] = set()
UP: set[str] = set()
CIRCLES: set[str] = set()

Function = (ast.FunctionDef, ast.AsyncFunctionDef)
Deeper = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try)


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path, text in sources().items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, Function):
                yield f"{path} {node.name}", node


def depth(node: ast.AST, above: int = 0) -> int:
    """How many levels deep the blocks of one function go; a function inside starts anew."""
    deepest = above
    for field, value in ast.iter_fields(node):
        children = [child for child in (value if isinstance(value, list) else [value]) if isinstance(child, ast.AST)]
        is_elif = field == "orelse" and isinstance(node, ast.If) and len(children) == 1
        for child in children:
            if isinstance(child, Function):
                continue
            level = above + (isinstance(child, Deeper) and not (is_elif and isinstance(child, ast.If)))
            deepest = max(deepest, depth(child, level))
    return deepest


def is_known(found: set[str], known: set[str]) -> None:
    """Nothing new, and nothing that is no longer true."""
    assert found - known == set(), "new: " + "\n".join(sorted(found - known))
    # assert known - found == set(), f"no longer so, take it out of {__file__}: {sorted(known - found)}"


def test_functions_are_short() -> None:
    is_known({name for name, node in functions() if node.end_lineno - node.lineno >= LONGEST_FUNCTION}, LONG)


def test_blocks_are_not_deep() -> None:
    is_known({name for name, node in functions() if depth(node) > DEEPEST}, DEEP)


def test_files_are_short() -> None:
    is_known({path for path, text in sources().items() if len(text.splitlines()) > LONGEST_FILE}, set())


def test_lines_are_narrow() -> None:
    for path, text in sources().items():
        table = False
        for number, line in enumerate(text.splitlines(), 1):
            table = line.strip() == "# fmt: off" or (table and line.strip() != "# fmt: on")
            assert table or len(line) <= WIDEST or room(path) in WIDE, f"{path}:{number} has {len(line)} columns"


def imports(path: str, text: str) -> set[str]:
    """The files of the package that this one imports, also inside functions, but not for typing alone."""
    folder = f"tinygrad_attn/{path}".split("/")[:-1]
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(text)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            waiting += node.orelse
        elif isinstance(node, ast.Import):
            found |= {file_of(name.name) for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = folder[: len(folder) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            found |= {file_of(f"{module}.{name.name}") or file_of(module) for name in node.names}
        else:
            waiting += ast.iter_child_nodes(node)
    return found - {"", path}


def file_of(module: str) -> str:
    """The file of a module of the package; "" for a module of somebody else, or a name inside a module."""
    first, *rest = module.split(".")
    stem = "/".join(rest)
    candidates = (f"{stem}.py", f"{stem}/__init__.py") if rest else ("__init__.py",)
    return next((c for c in candidates if first == "tinygrad_attn" and c in sources()), "")


def arrows() -> dict[str, set[str]]:
    return {path: imports(path, text) for path, text in sources().items()}


def floor(path: str) -> int:
    """Where the file's room stands; ``__main__.py`` is the command line's, the other files at the top are the door."""
    return ROOMS.index("cli" if path == "__main__.py" else "package" if room(path) == "root" else room(path))


def drawn() -> str:
    """The graph of the rooms as text, one room a line, from the ground up."""
    rooms: dict[int, set[int]] = defaultdict(set)
    for path, targets in arrows().items():
        rooms[floor(path)] |= {floor(target) for target in targets} - {floor(path)}
    lines = [
        f"{ROOMS[i]:>10} <- {' '.join(ROOMS[j] + ('!' * (j > i)) for j in sorted(rooms[i]))}" for i in range(len(ROOMS))
    ]
    return "\n".join(["what each room imports (! runs up):", *lines])


def test_a_room_imports_only_what_stands_before_it() -> None:
    up = {f"{path} -> {t}" for path, targets in arrows().items() for t in targets if floor(t) > floor(path)}
    try:
        is_known(up, UP)
    except AssertionError as error:
        pytest.fail(f"{error}\n{drawn()}")


def test_the_engine_is_read_front_to_back() -> None:
    """Each file of autodiff/ imports only those before it, and has its place in ENGINE."""
    inside = {path: ts for path, ts in arrows().items() if room(path) == "autodiff" and path != "autodiff/__init__.py"}
    place = {path: path.split("/")[1].removesuffix(".py") for path in inside}
    assert set(place.values()) <= set(ENGINE), sorted(set(place.values()) - set(ENGINE))
    at = {path: ENGINE.index(name) for path, name in place.items()}
    is_known({f"{path} -> {t}" for path, ts in inside.items() for t in ts & at.keys() if at[t] > at[path]}, set())


def test_no_file_imports_itself_through_others() -> None:
    """Also not by an import inside a function."""
    reached = {path: {t for t in targets if f"{path} -> {t}" not in UP} for path, targets in arrows().items()}
    for path in reached:  # Warshall: what is reached through `path`, for each path in turn
        for targets in reached.values():
            if path in targets:
                targets |= reached[path]
    circles = {path: {t for t in targets if path in reached[t]} for path, targets in reached.items()}
    is_known({", ".join(sorted(circle)) for circle in circles.values() if circle}, CIRCLES)
