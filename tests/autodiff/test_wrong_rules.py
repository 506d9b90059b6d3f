"""An operation, rule or hook of the user's that is wrong says which operation it is, and where that ran."""

from __future__ import annotations

import pytest

import tinygrad_attn as ta


@pytest.mark.parametrize(
    ("rule", "kind", "text"),
    [
        (lambda g: g[0], ValueError, r"mine: a rule gave a gradient of shape \(\) for an argument of shape \(2,\)"),
        (lambda g: 1.0, AttributeError, "'float' object has no attribute 'shape'"),
    ],
)
def test_a_rule(rule, kind, text) -> None:
    @ta.op(vjps={"x": rule})
    def mine(x):
        return x * 2

    with pytest.raises(kind, match=text) as caught:
        mine(ta.ones(2, requires_grad=True)).sum().backward()
    assert caught.value.__notes__[0].startswith("in the backward rule of mine (test_wrong_rules.py:")


def test_a_hook() -> None:
    x = ta.ones(2, requires_grad=True)
    h = x * 2
    h.register_hook(lambda g: g.sum())
    with pytest.raises(ValueError, match=r"hook: expected a gradient of shape \(2,\), got \(\)") as caught:
        h.sum().backward()
    assert caught.value.__notes__[0].startswith("in a hook of mul (test_wrong_rules.py:")


def test_an_operation_without_rules_or_without_an_array() -> None:
    with pytest.raises(TypeError, match="op mine: expected a rule, as vjps="):

        @ta.op()
        def mine(x):
            return x

    @ta.op(vjps={"x": lambda g: g})
    def counts(x):
        return len(x)

    with pytest.raises(
        ValueError, match=r"(?s)counts: 'int' object has no attribute 'dtype'; got x \(2,\).*at test_wrong_rules"
    ):
        counts(ta.ones(2))
