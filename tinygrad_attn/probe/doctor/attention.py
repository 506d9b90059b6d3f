"""The doctor on attention: scale, masks, dead heads, softmax over the wrong axis, softmax before the loss."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...attention import check_mask
from ...autodiff.arrays import to_host
from ..local import kept_by_name
from ..meters import meters
from .evidence import Case
from .finding import Finding, joined, line_of
from .sites import Site, sites

_DEAD = 0.95  # of a head's rows


def findings(case: Case) -> Iterator[Finding]:
    found: dict[tuple[str, ...], tuple[Finding, list[str]]] = {}
    for site in sites(case):
        if not np.isfinite(site.weights).all():
            continue
        scope = site.node.scope
        for check in (_axis, _scale, _mask, _after, _dead):
            for finding in check(site):  # the layers of a model share their lines, and most of their faults
                key = (finding.kind, finding.where, *([scope] if finding.kind == "dead head" else []))
                found.setdefault(key, (finding, []))[1].append(scope)
    for finding, scopes in found.values():
        named = joined([scope for scope in scopes if scope])
        yield replace(finding, what=f"{named}: {finding.what}") if named else finding
    yield from _losses(case)


def _axis(site: Site) -> Iterator[Finding]:
    if site.axis != -1:
        yield Finding(
            "softmax over the wrong axis",
            site.line,
            f"softmax runs over axis {site.axis} of weights {site.weights.shape}, but the product with v sums over the last",
            "each key's weights add up to 1 over the queries, each query's over the keys do not",
            "softmax(scores, axis=-1)",
        )


def _scale(site: Site) -> Iterator[Finding]:
    if site.scale is None or site.d is None or site.d < 2 or site.weights.shape[-1] < 2 or site.scale <= 0:
        return
    right, std = 1.0 / math.sqrt(site.d), site.score_std()
    if abs(site.scale / right - 1.0) < 0.05 or math.isnan(std) or 0.75 <= std <= 1.35:
        return
    effect = "saturates: most rows get no gradient" if std > 1 else "stays nearly uniform: every key looks alike"
    yield Finding(
        "scale",
        site.scale_line,
        f"the scores are multiplied by {site.scale:.4g}{_which(site)}; 1/sqrt(d_k) = 1/sqrt({site.d}) is {right:.4g}; "
        f"measured score std {std:.3g}",
        f"q.k of d_k independent N(0, 1) terms has std sqrt(d_k); softmax of scores with std {std:.3g} {effect}",
        "scale=None, or q @ k.mT / math.sqrt(q.shape[-1]): the length that the product sums over",
    )


def _which(site: Site) -> str:
    """What the wrong scale is the right one for."""
    assert site.scale is not None and site.d is not None
    close = {
        ", that is 1: not at all": 1.0,
        f", which is 1/d_k: the root is missing ({site.d})": 1.0 / site.d,
        ", which is sqrt(d_k): multiplied where it should divide": math.sqrt(site.d),
        f", which is 1/sqrt(d_model), d_model = {site.d} x {site.heads} heads": 1.0 / math.sqrt(site.d * site.heads),
        f", which is 1/sqrt(n_k), the number of keys ({site.weights.shape[-1]})": 1.0
        / math.sqrt(site.weights.shape[-1]),
    }
    return next((text for text, value in close.items() if abs(site.scale / value - 1.0) < 1e-3), "")


def _mask(site: Site) -> Iterator[Finding]:
    if site.keep is None:
        return
    shape = site.weights.shape
    kinds = []
    for found in check_mask(site.keep, shape):
        kinds.append(found.kind)
        why = _WHY.get(found.kind, "queries see what they should not")
        yield Finding(f"mask: {found.kind}", site.mask_line, found.text, why, _TRUE)
    full = np.broadcast_to(site.keep, shape)
    n_q, n_k = shape[-2:]
    ahead = np.triu(np.ones((n_q, n_k), bool))
    if n_q == n_k > 2 and (full == ahead).all() and "blind to itself" not in kinds:
        text = "every query sees itself and what comes after, nothing before: a causal mask upside down"
        yield Finding("mask: looks ahead", site.mask_line, text, "the model reads the answer it should predict", _TRUE)


_TRUE = "True = may attend: ta.causal_mask(n), ta.padding_mask(lengths); masked_fill wants the opposite, ~keep"
_WHY = {
    "empty rows": "their output and gradient are 0; where whole sequences are empty, the mask is likely inverted",
    "blind to itself": "an inverted causal mask shows each query only what comes later",
    "wrong axis": "whole queries are switched off, and padded keys are still attended to",
}


def _after(site: Site) -> Iterator[Finding]:
    if site.after is not None:
        count, line = site.after
        yield Finding(
            "mask after softmax",
            line,
            f"{count} weights are set to 0 after softmax",
            "the rows no longer add up to 1, and hidden keys still push the others down",
            "mask the scores before softmax: masked_fill(scores, ~keep, -inf)",
        )


def _dead(site: Site) -> Iterator[Finding]:
    if site.axis != -1 or site.weights.shape[-1] < 2:
        return
    keep = np.broadcast_to(True if site.visible is None else site.visible, site.weights.shape)
    apart = (
        site.weights.shape if site.weights.ndim >= 4 else (-1, site.weights.shape[-1])
    )  # without heads: all rows together
    found = meters(site.weights.reshape(apart), keep.reshape(apart))
    dead = [
        f"head {head} ({one.dead:.0%} of its rows)" for head, one in enumerate(found) if one.rows and one.dead >= _DEAD
    ]
    if dead:
        names = joined(dead) if site.heads > 1 else f"its only head ({found[0].dead:.0%} of the rows)"
        yield Finding(
            "dead head",
            site.line,
            f"{names}: softmax puts everything on one key, its Jacobian is below 1e-3 (score std {site.score_std():.3g})",
            "no gradient reaches its q and k: it cannot learn where to look",
            "scale by 1/sqrt(d_k); start with smaller W_Q and W_K; lower the learning rate before this happens",
        )
    if site.gradient is not None and site.heads > 1 and site.gradient.ndim >= 3:
        by_head = np.moveaxis(site.gradient, -3, 0).reshape(site.gradient.shape[-3], -1)
        silent = [head for head, g in enumerate(by_head) if not (g != 0).any()]
        if 0 < len(silent) < len(by_head):
            yield Finding(
                "dead head",
                site.line,
                f"head {joined([str(h) for h in silent])}: the gradient that reaches its output is exactly 0",
                "nothing in the loss depends on this head",
                "are its rows of W_O 0, or is its output dropped?",
            )


def _losses(case: Case) -> Iterator[Finding]:
    for node in case.order:
        if node.op.name != "cross_entropy":
            continue
        logits = (node.parents or (None,))[0]
        if logits is not None and logits.op.name == "softmax":
            yield Finding(
                "softmax before cross_entropy",
                line_of(node),
                f"cross_entropy gets probabilities (softmax at {line_of(logits)}); it takes softmax itself",
                "the second softmax flattens the first: the loss cannot fall below log(1 + (n - 1)/e), gradients are small",
                "give it the logits",
            )
        kept = kept_by_name(node)
        given = kept.get("targets")
        targets = np.asarray(given if given is None or isinstance(given, (list, tuple)) else to_host(given))
        if given is not None and targets.size and (targets == kept.get("ignore_index")).all():
            text = f"all {np.size(targets)} targets are {kept.get('ignore_index')}, the index to ignore"
            yield Finding(
                "no target counts", line_of(node), text, "loss and gradients are 0", "check how the targets are made"
            )
