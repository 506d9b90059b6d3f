"""``tinygrad-attn report [RUN | --lab]``: one HTML file about a trained model's attention, or about the experiments."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from ..files.errors import UserError, as_user_error, needs
from ..lab.words import LANGUAGES
from .output import console, progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run_folder", nargs="?", type=Path, metavar="RUN", help="a run's folder; without: a model trained now"
    )
    parser.add_argument(
        "--lab", action="store_true", help="the experiments of `tinygrad-attn lab` (minutes), not a model"
    )
    parser.add_argument(
        "--sentence", metavar="TEXT", help="what to look at in a RUN (default: a held-out row of its task)"
    )
    parser.add_argument(
        "--seeds", type=int, metavar="N", help="with --lab: how many seeds (default: each experiment's own)"
    )
    parser.add_argument("--lang", choices=LANGUAGES, default="en", help="language of the page (default en)")
    parser.add_argument(
        "-o", "--out", type=Path, default=Path("report.html"), metavar="FILE", help="default report.html"
    )


def run(arguments: argparse.Namespace) -> int:
    needs("matplotlib", "viz", "a report")
    if arguments.lab and arguments.run_folder is not None:
        raise UserError("give a RUN or --lab, not both")
    if arguments.sentence is not None and arguments.run_folder is None:
        raise UserError("--sentence needs a RUN; for the model trained on the spot, see `tinygrad-attn play`")
    screen, path = console(), arguments.out
    new = not path.exists()
    with as_user_error(OSError, doing=f"cannot write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a").close()  # before any work is lost
    try:
        text = _lab(screen, arguments) if arguments.lab else _model(screen, arguments)
    except BaseException:
        if new:
            path.unlink()  # no empty page is left behind
        raise
    path.write_text(text, encoding="utf-8")
    screen.print(f"Written to {path} ({len(text.encode()) / 1e6:.1f} MB). It opens from disk and needs no network.")
    return 0


def _model(screen: Console, arguments: argparse.Namespace) -> str:
    from ..pages.report.document import report
    from ..pages.report.subject import subject_of_run, subject_of_task
    from ..tasks.reader import STEPS

    if arguments.run_folder is None:
        with progress(screen, "training", STEPS) as update:
            return report(subject_of_task(on_step=lambda step, loss: update(step, f"loss {loss:.4f}")), arguments.lang)
    with as_user_error(ValueError, OSError):
        subject = subject_of_run(arguments.run_folder, arguments.sentence)
    return report(subject, arguments.lang)


def _lab(screen: Console, arguments: argparse.Namespace) -> str:
    from ..lab.catalogue import EXPERIMENTS, experiment
    from ..pages.report.document import lab_report

    found = []
    for name, entry in EXPERIMENTS.items():
        with progress(screen, name, 1) as update:
            table = experiment(name, arguments.seeds, arguments.lang, lambda done, total: update(done, f"of {total}"))
        screen.print(f"{name}: {len(table.rows)} rows")
        found.append((entry.en if arguments.lang == "en" else entry.es, table))
    return lab_report(found, arguments.lang)
