"""@experiment: a question, the table that answers it, and a function that measures.

    @experiment("Is a square positive?", seeds=3, title="Squares", columns=[Column("x", "x"), Column("y", "x^2")])
    def squares(run: Run, *, sizes: Sequence[int] = (1, 10)) -> None:
        \"""Claim: ...  Refuted by ...\"""
        for size in run.each(sizes):                                    # reports progress
            drawn = run.over_seeds(lambda seed: size * np.random.default_rng(seed).standard_normal())
            run.row(x=size, y=min(x * x for x in drawn))
        least = min(run.column("y"))
        run.note("seeds: {seeds}.")                                     # {seeds}: a setting;  {}: a value given here
        run.verdict("A square is positive.", least > 0, "at least {:.2g}", least)

    print(squares(seeds=5, language="es", sizes=[2]))

All texts are English; spanish.toml holds them in Spanish, keyed by the English."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import Any, TypeVar

from ..show.table import Column
from .result import LabTable, Picture, Row, Verdict, matching
from .words import Text, checked

T = TypeVar("T")
Progress = Callable[[int, int], None]  # (done, total), called as an experiment goes on


def quiet(done: int, total: int) -> None:
    """A progress that shows nothing."""


@dataclass
class Run:
    """One run of an experiment: its seeds and settings, and what was measured so far.

    main: which rows are printed (all of them are written and plotted)."""

    seeds: int
    on_step: Progress
    settings: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    notes: list[Text] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    main: Callable[[Row], bool] = lambda row: True

    def each(self, jobs: Iterable[T]) -> Iterator[T]:
        """The jobs one after the other; progress is reported after each."""
        every = list(jobs)
        for done, job in enumerate(every, 1):
            yield job
            self.on_step(done, len(every))

    def over_seeds(self, measure: Callable[[int], T]) -> list[T]:
        """``measure(seed)`` for every seed."""
        return [measure(seed) for seed in range(self.seeds)]

    def row(self, **values: Any) -> None:
        self.rows.append(values)

    def column(self, key: str, **where: Any) -> list[Any]:
        """The values of one column so far, in the rows where other columns have the values asked for."""
        return [row[key] for row in matching(self.rows, where)]

    def note(self, text: str, *values: Any) -> None:
        """A line below the table, with `values` for ``{}`` and settings for ``{their names}``."""
        self.notes.append(Text(text, *values, **self.settings))

    def verdict(self, sentence: str, holds: bool, measured: str, *values: Any, **named: Any) -> None:
        """A sentence of the lesson, whether it holds, and what was measured, with `values` for its ``{}``.

        In both settings stand for ``{their names}``, and so does what is `named`."""
        known = self.settings | named
        self.verdicts.append(Verdict(Text(sentence, **known), Text(measured, *values, **known), bool(holds)))


@dataclass
class Experiment:
    """What @experiment makes of a function `body`: called, it runs it and returns the table.

    seeds: how many where the call does not say.  The other fields are those of LabTable."""

    body: Callable[..., None]
    question: str
    seeds: int
    title: str
    columns: Sequence[Column]
    units: Mapping[str, str]
    picture: Picture | None

    def __post_init__(self) -> None:
        update_wrapper(self, self.body)
        of_body = list(inspect.signature(self.body).parameters.values())[1:]
        self.defaults = {parameter.name: parameter.default for parameter in of_body}
        common = list(inspect.signature(type(self).__call__).parameters.values())[1:-1]
        self.__signature__ = inspect.Signature([*common, *of_body], return_annotation=LabTable)

    def __call__(
        self, seeds: int | None = None, language: str = "en", on_step: Progress = quiet, **settings: Any
    ) -> LabTable:
        """Errors: ValueError for a language that the lab does not speak; TypeError for an unknown setting."""
        count = self.seeds if seeds is None else seeds
        run = Run(count, on_step, {**self.defaults, **settings, "seeds": count})
        table = LabTable(
            Text(self.title, **run.settings), self.columns, run.rows, run.notes, self.units, run.verdicts, self.picture
        )
        table.language = checked(language)
        self.body(run, **settings)
        table.main = run.main
        return table


def experiment(
    question: str,
    *,
    title: str,
    columns: Sequence[Column],
    seeds: int = 5,
    units: Mapping[str, str] | None = None,
    picture: Picture | None = None,
) -> Callable[[Callable[..., None]], Experiment]:
    """Declare an experiment (see the head of this file); its name is that of its file."""
    return lambda body: Experiment(body, question, seeds, title, columns, units or {}, picture)
