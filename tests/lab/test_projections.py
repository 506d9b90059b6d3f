"""Asymmetry, rank of M, widths of values, concatenated heads, cost: exact claims, few seeds."""

import numpy as np

from tinygrad_attn.lab.asymmetry import asymmetry_of_scores
from tinygrad_attn.lab.concatenated import concatenated_and_separate
from tinygrad_attn.lab.cost import cost_of_length
from tinygrad_attn.lab.definiteness import rank_and_definiteness
from tinygrad_attn.lab.values import width_of_values


def test_scores_are_symmetric_only_when_tied_and_weights_never():
    table = asymmetry_of_scores(seeds=1)
    assert [verdict.holds for verdict in table.verdicts] == [True, True, False, True]
    assert (table.column("scores", tied=True) < 1e-12).all() and (table.column("scores", tied=False) > 0.1).all()
    assert (table.column("weights", tied=True) > 0.01).all()


def test_rank_eigenvalues_and_zeros_of_M():
    table = rank_and_definiteness(seeds=2, widths=(4, 16, 48), d_model=32)
    assert [verdict.holds for verdict in table.verdicts] == [True, True, False, True]
    assert table.column("rank", tied=False).tolist() == [4, 16, 32]
    assert table.column("zero", tied=True).tolist() == [28, 16, 0]
    assert table.column("negative", d_k=4, tied=False).tolist() == [4.0]  # M has 4 pairs: symmetric part of rank 8


def test_weights_do_not_depend_on_d_v_and_narrow_values_lose():
    table = width_of_values(seeds=2, widths=(1, 16), steps=80)
    assert all(verdict.holds for verdict in table.verdicts)
    assert (table.column("difference") == 0).all()
    assert table.column("W_V").tolist() == ["24x1", "24x16"]


def test_one_head_at_a_time_equals_one_product():
    table = concatenated_and_separate(seeds=1, repeats=1)
    assert table.verdicts[0].holds  # equal; the clock (verdict 1) is only shown
    heads, three, one = table.column("products")
    assert heads == 4 * 5 + 1 and three == 3 + 2 + 1 and one == 1 + 2 + 1


def test_work_grows_as_n_squared_d_and_memory_need_not():
    table = cost_of_length(seeds=1, lengths=(256, 512, 1024, 2048))
    assert table.verdicts[0].holds
    operations, n = table.column("operations", form="explicit"), table.column("n", form="explicit")
    # 2 n^2 d twice, the scaling, 4 a softmax entry
    assert np.array_equal(operations, 4 * n**2 * 64 + 5 * n**2)
    kept = dict(zip(table.column("n", form="fused"), table.column("bytes", form="fused")))
    assert kept[2048] < 5 * 4 * 2048 * 65  # q, k, v, out and a number a row, in float32: no (n, n) array
