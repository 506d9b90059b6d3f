"""``tinygrad-attn report [RUN | --lab]``: one HTML file about a trained model's attention, or about the experiments."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from ..files.atomic import write_text
from ..files.errors import UserError, as_user_error, needs
from .output import console, folder, learning, progress
from .shared_arguments import add_language, add_model, flag, switch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    switch(parser, "--lab", "the experiments of `tinygrad-attn lab` (minutes), not a model")
    flag(parser, "--sentence", "what to look at in a RUN (default: a held-out row of its task)", str, "TEXT")
    flag(parser, "--seeds", "with --lab: how many seeds (default: each experiment's own)")
    out = Path("report.html")
    parser.add_argument("-o", "--out", type=Path, default=out, metavar="FILE", help=f"default {out}")
    add_language(parser)


def run(arguments: argparse.Namespace) -> int:
    needs("matplotlib", "viz", "a report")
    if arguments.lab and arguments.run_folder is not None:
        raise UserError("give a RUN or --lab, not both")
    if arguments.sentence is not None and arguments.run_folder is None:
        raise UserError("--sentence needs a RUN; for the model trained on the spot, see `tinygrad-attn play`")
    screen, path = console(), arguments.out
    folder(path.parent)  # before any work is lost
    if path.is_dir():
        raise UserError(f"cannot write {path}: it is a folder")
    text = _lab(screen, arguments) if arguments.lab else _model(screen, arguments)
    with as_user_error(OSError, doing=f"cannot write {path}"):
        write_text(path, text)
    screen.print(f"Written to {path} ({len(text.encode()) / 1e6:.1f} MB). It opens from disk and needs no network.")
    return 0


def _model(screen: Console, arguments: argparse.Namespace) -> str:
    from ..pages.report.document import report
    from ..pages.report.subject import subject_of_run, subject_of_task

    if arguments.run_folder is None:
        with learning(screen) as on_step:
            return report(subject_of_task(on_step=on_step), arguments.lang)
    with as_user_error(ValueError, OSError):
        subject = subject_of_run(arguments.run_folder, arguments.sentence)
    return report(subject, arguments.lang)


def _lab(screen: Console, arguments: argparse.Namespace) -> str:
    from ..lab.catalogue import EXPERIMENTS
    from ..lab.words import spoken
    from ..pages.report.document import lab_report

    found = []
    for name, entry in EXPERIMENTS.items():
        with progress(screen, name, 1) as update:
            table = entry(arguments.seeds, arguments.lang, lambda done, total: update(done, f"of {total}"))
        screen.print(f"{name}: {len(table.rows)} rows")
        found.append((spoken(entry.question, arguments.lang), table))
    return lab_report(found, arguments.lang)
