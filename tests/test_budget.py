"""The package stays small: code lines (no blanks, comments, docstrings) are counted against two budgets.

A budget may rise, in the commit that says what the lines buy: change ``BUDGET`` and ``ROOMS`` there.
After a commit that saves lines, write the smaller sizes down as well: what is saved stays saved."""

from __future__ import annotations

from collections import Counter

from sources import code_lines, room, sources

BUDGET = {"framework": 9646, "applications": 3632}
APPLICATIONS = {"lab", "pages", "sweep", "cli", "site", "lessons"}
# fmt: off
ROOMS = {  # the sizes at the last change of a budget
    "root": 125, "autodiff": 2648, "attention": 1052, "nn": 691, "optim": 218, "files": 213, "show": 356,
    "tasks": 288, "probe": 2299, "programs": 968, "train": 788,
    "lab": 1578, "cli": 874, "pages": 802, "sweep": 378,
}
# fmt: on


def kind(room: str) -> str:
    return "applications" if room in APPLICATIONS else "framework"


def test_the_package_keeps_to_its_budgets() -> None:
    sizes: Counter[str] = Counter()
    for path, text in sources().items():
        sizes[room(path)] += code_lines(text)
    for name, budget in BUDGET.items():
        rooms = {r: n for r, n in sizes.items() if kind(r) == name}
        grown = [f"  {r:12} {ROOMS.get(r, 0):5} -> {n:5}  {n - ROOMS.get(r, 0):+}" for r, n in rooms.items()]
        total = sum(rooms.values())
        assert total <= budget, f"{name}: {total} code lines, the budget is {budget}\n" + "\n".join(grown)


def test_the_table_of_rooms_adds_up_to_the_budgets() -> None:
    for name, budget in BUDGET.items():
        assert sum(n for r, n in ROOMS.items() if kind(r) == name) == budget
