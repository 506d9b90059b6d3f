"""The doctor on attention: scale, masks, dead heads, softmax over the wrong axis, softmax before the loss."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ...attention import check_mask
from ...autodiff.arrays import to_host
from ...autodiff.ops.loss import cross_entropy
from ...autodiff.ops.softmax import softmax
from .evidence import Evidence
from .finding import Finding, Findings, found, joined
from .found_attention import FoundAttention, attentions, multiples

_DEAD = 0.95  # of a head's rows


def findings(e: Evidence) -> Findings:
    by_line: dict[tuple[str, ...], tuple[Finding, list[str]]] = {}
    for attention in attentions(e):
        scope = attention.node.scope
        for check in (_axis, _scale, _mask, _after, _dead, _unheard) if attention.weights.finite else ():
            for finding in check(attention):  # the layers of a model share their lines, and most of their faults
                key = (finding.kind, finding.where, *([scope] if finding.kind == "dead head" else []))
                by_line.setdefault(key, (finding, []))[1].append(scope)
    for finding, scopes in by_line.values():
        named = joined([scope for scope in scopes if scope])
        yield replace(finding, what=f"{named}: {finding.what}") if named else finding
    yield from _losses(e)


def _axis(a: FoundAttention) -> Findings:
    if a.axis != -1:
        what = f"softmax runs over axis {a.axis} of weights {a.shape}, but the product with v sums over the last"
        yield found("softmax over the wrong axis", a.node.line, what)


def _scale(a: FoundAttention) -> Findings:
    if a.scale is None or a.d is None or a.d < 2 or a.shape[-1] < 2 or a.scale <= 0:
        return
    right, std = 1.0 / math.sqrt(a.d), a.weights.score_std
    if abs(a.scale / right - 1.0) < 0.05 or not std > 0 or 0.75 <= std <= 1.35:
        return
    if abs(math.log(std * right / a.scale)) >= abs(math.log(std)):  # it would not be better: cosines, small weights
        return
    effect = "saturates: most rows get no gradient" if std > 1 else "stays nearly uniform: every key looks alike"
    rightly = f"1/sqrt(d_k) = 1/sqrt({a.d}) is {right:.4g}; measured score std {std:.3g}"
    what = f"the scores are multiplied by {a.scale:.4g}{_meant_for(a.scale, a.d, a)}; {rightly}"
    yield found("scale", a.scale_line, what, std=std, effect=effect)


def _meant_for(scale: float, d: int, a: FoundAttention) -> str:
    """What the wrong scale is the right one for."""
    n_k = a.shape[-1]
    known = {
        ", that is 1: not at all": 1.0,
        f", which is 1/d_k: the root is missing ({d})": 1.0 / d,
        ", which is sqrt(d_k): multiplied where it should divide": math.sqrt(d),
        f", which is 1/sqrt(d_model), d_model = {d} x {a.heads} heads": 1.0 / math.sqrt(d * a.heads),
        f", which is 1/sqrt(n_k), the number of keys ({n_k})": 1.0 / math.sqrt(n_k),
    }
    return next((text for text, value in known.items() if abs(scale / value - 1.0) < 1e-3), "")


def _mask(a: FoundAttention) -> Findings:
    if a.mask is None:
        return
    wrong = [one for one in check_mask(a.mask, a.shape) if not (a.filled and one.kind == "empty rows")]
    for one in wrong:
        yield found(f"mask: {one.kind}", a.mask_line, one.text)
    n_q, n_k = a.shape[-2:]
    square = n_q == n_k > 2 and a.mask.shape[-2:] == (n_q, n_k)
    if square and (a.mask == np.tri(n_q, dtype=bool).T).all() and "blind to itself" not in [one.kind for one in wrong]:
        what = "every query sees itself and what comes after, nothing before: a causal mask upside down"
        yield found("mask: looks ahead", a.mask_line, what)


def _after(a: FoundAttention) -> Findings:
    if a.after is not None:
        count, line = a.after
        yield found("mask after softmax", line, f"{count} weights are set to 0 after softmax")


def _dead(a: FoundAttention) -> Findings:
    rows, dead = a.weights.rows, a.weights.dead
    if a.axis != -1 or a.shape[-1] < 2:
        return
    shares = {head: dead[head] / rows[head] for head in sorted(rows) if rows[head]}
    heads = [f"head {head} ({share:.0%} of its rows)" for head, share in shares.items() if share >= _DEAD]
    if heads:
        names = joined(heads) if a.heads > 1 else f"its only head ({shares[0]:.0%} of the rows)"
        how = f"softmax puts everything on one key, its Jacobian is below 1e-3 (score std {a.weights.score_std:.3g})"
        yield found("dead head", a.node.line, f"{names}: {how}")


def _unheard(a: FoundAttention) -> Findings:
    if a.axis != -1 or a.shape[-1] < 2 or a.gradient is None or a.heads < 2:
        return
    by_head = np.moveaxis(a.gradient, -3, 0).reshape(a.gradient.shape[-3], -1)
    silent = [str(head) for head, g in enumerate(by_head) if not (g != 0).any()]
    if 0 < len(silent) < len(by_head):
        what = f"head {joined(silent)}: the gradient that reaches its output is exactly 0"
        yield found("dead head", a.node.line, what, "unheard")


def _losses(e: Evidence) -> Findings:
    for node in e.order:
        if node.op is not cross_entropy.op:
            continue
        logits = node.inputs[0][1]
        if logits is not None:
            made = next((one.line for one, _ in multiples(logits) if one.op is softmax.op), "")
            if made or _add_up(e.values.get(logits)):
                how = f"softmax at {made}" if made else "each row has the same sum, none is below 0"
                what = f"cross_entropy gets probabilities ({how}); it takes softmax itself"
                yield found("softmax before cross_entropy", node.line, what)
        targets, ignored = node.saved.get("targets"), node.saved.get("ignore_index")
        targets = to_host(targets) if hasattr(targets, "dtype") else np.asarray(targets)
        if targets.size and (targets == ignored).all():
            what = f"all {targets.size} targets are {ignored}, the index to ignore"
            yield found("no target counts", node.line, what)


def _add_up(logits: np.ndarray | None) -> bool:
    """Is each row a distribution, or a multiple of one?  (Equal rows are a bias.)"""
    if logits is None or logits.size == 0 or logits.shape[-1] < 2 or not (logits >= 0).all():
        return False
    rows = logits.reshape(-1, logits.shape[-1]).astype(np.float64)
    sums = rows.sum(axis=-1)
    return bool(sums[0] > 0 and np.ptp(sums) < 1e-5 * sums[0] and np.ptp(rows, axis=0).max() > 1e-3 * sums[0])
