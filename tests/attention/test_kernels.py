"""What the fused attention kernels promise, against the formula written out in higher precision."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from attention_written_out import assert_equal, normal, sum_to, visible, written_out
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tinygrad_attn.attention import kernels
from tinygrad_attn.attention.call import Call
from tinygrad_attn.attention.kernels import blocked, plain, threads
from tinygrad_attn.autodiff.blas import blas_threads


def record(options):
    """The bias, and the other options as one record."""
    return options.get("bias"), Call(**{name: value for name, value in options.items() if name != "bias"})


def fused(g, q, k, v, **options):
    bias, call = record(options)
    out, residual = kernels.forward(q, k, v, bias, call)
    needs = (True, True, True, bias is not None)
    gradients = kernels.backward(g, q, k, v, bias, call, out, residual, needs)
    return dict(zip(("out", "dq", "dk", "dv", "dbias"), (out, *gradients), strict=True))


def drop_by_position(index, rows, columns):
    """Dropout whose draw depends on the position alone, so that every tiling draws the same."""
    axes = [np.arange(s.start, s.stop) for s in (*index, rows, columns)]
    places = sum(np.ix_(*[a * prime for a, prime in zip(axes, (101, 53, 7, 3)[-len(axes) :], strict=True)]))
    return np.where(places % 5 == 0, 0.0, 1.25)


CUTS = {
    "one tile": {},
    "many tiles, weights kept": {"ONE_TILE": 0, "TILE": 200, "CAUSAL_ROWS": 4},
    "many tiles, weights recomputed": {"ONE_TILE": 0, "TILE": 200, "SHORT": 0, "CAUSAL_ROWS": 4},
    "tiles of heads, weights recomputed": {"ONE_TILE": 0, "SHORT": 0},
}


@pytest.fixture(params=CUTS, ids=lambda name: name.replace(" ", "-"))
def cut(request, monkeypatch):
    """Every way in which a call may be cut into tiles, at sizes that a test can afford."""
    for name, value in CUTS[request.param].items():
        monkeypatch.setattr(blocked, name, value)
    if CUTS[request.param]:
        monkeypatch.setattr(plain, "TILE", 200)


@st.composite
def problems(draw):
    """Shapes, masks, bias, dropout, views and grouped heads, in float64."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_q, n_k, d_k, d_v = (draw(st.integers(0 if i < 2 else 1, 24 if i < 2 else 6)) for i in range(4))
    lead_q, lead_kv = draw(
        st.sampled_from(
            [
                ((), ()),
                ((3,), (3,)),
                ((2, 3), (2, 3)),
                ((2, 2, 2), (2, 2, 1)),
                ((2, 3), (1, 3)),
                ((1, 3), (2, 1)),
                ((3,), ()),
            ]
        )
    )
    lead = np.broadcast_shapes(lead_q, lead_kv)
    views = draw(st.booleans())

    def make(lead, n, d):
        if views:  # rows before heads, every other column: no axis is contiguous
            return np.moveaxis(normal(rng, n, *lead, 2 * d), 0, -2)[..., ::2]
        return normal(rng, *lead, n, d)

    q, k, v, g = make(lead_q, n_q, d_k), make(lead_kv, n_k, d_k), make(lead_kv, n_k, d_v), make(lead, n_q, d_v)
    inner = draw(st.sampled_from([(n_q, n_k), (1, n_k), (n_q, 1)]))
    outer = draw(st.sampled_from([(), lead, (1,) * len(lead)]))
    return (g, q, k, v), {
        "scale": draw(st.sampled_from([d_k**-0.5, 1.0, 6.0])),
        "offset": draw(st.sampled_from([None, 0, n_k - n_q, -3, 4])),
        "mask": draw(st.sampled_from([None, rng.random((*outer, *inner)) > 0.4])),
        "bias": draw(st.sampled_from([None, normal(rng, *outer, *inner) * 3])),
        "dropout": draw(st.sampled_from([None, drop_by_position])) if len(lead) == 2 else None,
    }


SETTINGS = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


class TestEqualsTheFormula:
    @SETTINGS
    @given(problem=problems())
    def test_value_and_gradients_over_all_options(self, cut, problem):
        arrays, options = problem
        assert_equal(fused(*arrays, **options), written_out(*arrays, **options))

    @SETTINGS
    @given(problem=problems())
    def test_what_is_hidden_may_be_nan_or_inf(self, cut, problem):
        (g, q, k, v), options = problem
        shape = np.broadcast_shapes(q.shape[:-2], k.shape[:-2]) + (q.shape[-2], k.shape[-2])
        seen = visible(shape, options["offset"], options["mask"])
        right = written_out(g, q, k, v, **options)
        q, k, v, g = (x.copy() for x in (q, k, v, g))
        used_k, used_q = (
            sum_to(seen.any(-2)[..., None].astype(int), k[..., :1]) > 0,
            sum_to(seen.any(-1)[..., None].astype(int), q[..., :1]) > 0,
        )
        k[~used_k[..., 0]], v[~used_k[..., 0]] = np.nan, -np.inf
        q[~used_q[..., 0]] = np.inf
        g[~seen.any(-1)] = np.nan
        assert_equal(fused(g, q, k, v, **options), right)

    def test_a_nan_reaches_only_the_rows_that_see_it(self, cut):
        rng = np.random.default_rng(0)
        q, k, v, g = (normal(rng, 2, 3, 12, 4) for _ in range(4))
        clean = fused(g, q, k, v, scale=0.5, offset=0)
        k[..., 7, 1] = np.nan
        v[..., 7, 2] = np.nan
        dirty = fused(g, q, k, v, scale=0.5, offset=0)
        for name in ("out", "dq"):
            np.testing.assert_allclose(dirty[name][..., :7, :], clean[name][..., :7, :], atol=1e-13)
            assert np.isnan(dirty[name][..., 7:, :]).any(-1).all()

    def test_central_differences(self, cut):
        rng = np.random.default_rng(1)
        q, k, v, g = normal(rng, 2, 5, 3), normal(rng, 2, 6, 3), normal(rng, 2, 6, 2), normal(rng, 2, 5, 2)
        options = {"scale": 0.7, "offset": 1, "mask": rng.random((5, 6)) > 0.2, "bias": normal(rng, 5, 6)}
        ours = fused(g, q, k, v, **options)
        for name, x in (("dq", q), ("dk", k), ("dv", v), ("dbias", options["bias"])):
            numeric = np.zeros_like(x)
            for i in np.ndindex(x.shape):
                keep_x = x[i]
                x[i] = keep_x + 1e-5
                up = (kernels.forward(q, k, v, *record(options))[0] * g).sum()
                x[i] = keep_x - 1e-5
                numeric[i] = (up - (kernels.forward(q, k, v, *record(options))[0] * g).sum()) / 2e-5
                x[i] = keep_x
            np.testing.assert_allclose(ours[name], numeric, atol=1e-8, err_msg=name)

    @pytest.mark.parametrize("dtype, tolerance", [(np.float16, 2e-3), (np.float32, 3e-6)])
    def test_lower_precision(self, cut, dtype, tolerance):
        rng = np.random.default_rng(2)
        q, k, v, g = (normal(rng, 2, 3, 20, 8, dtype=dtype) for _ in range(4))
        ours = fused(g, q, k, v, scale=8**-0.5, offset=0)
        assert all(x is None or x.dtype == dtype for x in ours.values())
        assert_equal(ours, written_out(g, q, k, v, scale=8**-0.5, offset=0), tolerance)

    def test_float16_scores_may_exceed_float16(self):
        q = np.full((1, 64), 32, np.float16)
        k = np.full((2, 64), 32, np.float16)
        k[1, 0] = 31
        v = np.array([[1], [0]], np.float16)
        ours = fused(np.ones((1, 1), np.float16), q, k, v, scale=1 / 8)
        np.testing.assert_allclose(ours["out"], [[0.98201379]], atol=2e-3)
        np.testing.assert_allclose(ours["dq"], [[0.00220784] + [0] * 63], atol=2e-3 * 0.00220784)

    def test_only_what_is_needed(self, cut):
        rng = np.random.default_rng(3)
        q, k, v, g = (normal(rng, 2, 2, 9, 4) for _ in range(4))
        inputs = (q, k, v, None, Call(scale=1.0))
        results = kernels.forward(*inputs)
        full = kernels.backward(g, *inputs, *results, (True, True, True, False))
        for i in range(3):
            alone = kernels.backward(g, *inputs, *results, tuple(j == i for j in range(4)))
            np.testing.assert_array_equal(alone[i], full[i])
            assert sum(x is not None for x in alone) == 1

    def test_backward_leaves_its_inputs_alone(self, cut):
        rng = np.random.default_rng(4)
        q, k, v, g = (normal(rng, 2, 2, 9, 4) for _ in range(4))
        inputs = (q, k, v, None, Call(scale=1.0, offset=0))
        out, residual = kernels.forward(*inputs)
        before = [x.copy() for x in (g, q, k, v, out, residual)]
        first, again = (kernels.backward(g, *inputs, out, residual, (True, True, True, False)) for _ in range(2))
        for old, now in zip(before, (g, q, k, v, out, residual), strict=True):
            np.testing.assert_array_equal(old, now)
        for one, two in zip(first[:3], again[:3], strict=True):
            np.testing.assert_array_equal(one, two)


class TestSmallGradientsSurvive:
    """Unscaled float32 attention saturates; the gradient is then tiny, but it is not noise."""

    @pytest.mark.parametrize("d_k", [64, 256, 512])
    @pytest.mark.parametrize("offset", [None, 0], ids=["full", "causal"])
    def test_no_row_is_off_by_ten_percent(self, cut, d_k, offset):
        rng = np.random.default_rng(d_k)
        q, k, v, g = (normal(rng, 2, 20, 16, d, dtype=np.float32) for d in (d_k, d_k, 16, 16))
        options = {"scale": 1.0, "offset": offset}
        ours, right = fused(g, q, k, v, **options), written_out(g, q, k, v, **options)
        for name in ("dq", "dk"):
            size = np.sqrt((right[name] ** 2).sum(-1))
            error = np.sqrt(((ours[name] - right[name]) ** 2).sum(-1))
            assert (error < 0.1 * size)[size >= 1.2e-38].all(), name

    def test_the_winning_entry_keeps_its_gradient(self, cut):
        """Logits (20, 0), g = (1, 0): the textbook rule gives (0, -2.06e-9)."""
        q, k, v = np.eye(2, dtype=np.float32)[:1], np.array([[20, 0], [0, 0]], np.float32), np.eye(2, dtype=np.float32)
        dk = fused(np.array([[1, 0]], np.float32), q, k, v, scale=1.0)["dk"]
        np.testing.assert_allclose(dk[:, 0], [2.0611536e-9, -2.0611536e-9], rtol=1e-5)

    def test_a_query_that_sees_one_key_has_no_gradient(self, cut):
        rng = np.random.default_rng(5)
        q, k, v, g = (normal(rng, 2, 3, 12, 8, dtype=np.float32) for _ in range(4))
        dq = fused(g, q, k, v, scale=1.0, offset=0)["dq"]
        assert (dq[..., 0, :] == 0).all()
        assert (dq[..., 1, :] != 0).any()


class TestLookingInside:
    @SETTINGS
    @given(problem=problems())
    def test_rows_and_blocks_equal_the_formula(self, cut, problem):
        (g, q, k, v), options = problem
        right = written_out(g, q, k, v, **options)
        rows, columns = slice(1, 9), slice(2, 11)
        block = kernels.block(kernels.Operands(q, k, v, *record(options)), g, rows, columns)
        names = {"weights": "p", "weights_grad": "dp", "scores_grad": "ds"}
        assert_equal(
            block,
            {ours: np.broadcast_to(right[name], right["ds"].shape)[..., rows, columns] for ours, name in names.items()},
        )
        p = right["p"]
        largest = p.max(-1, initial=0)
        stats = kernels.row_statistics(kernels.Operands(q, k, v, *record(options)), g)
        expected = {
            "entropy": -(p * np.log(np.where(p > 0, p, 1))).sum(-1),
            "largest": largest,
            "others": np.where(largest > 0, 1 - largest, 0),
            "grad_norm": np.sqrt((right["ds"] ** 2).sum(-1)),
        }
        assert_equal({name: stats[name] for name in expected}, expected)

    @pytest.mark.parametrize("d_k", [64, 256])
    def test_statistics_of_saturated_rows_do_not_cancel(self, d_k):
        rng = np.random.default_rng(d_k)
        q, k, v, g = (normal(rng, 50, 16, d, dtype=np.float32) for d in (d_k, d_k, 16, 16))
        stats = kernels.row_statistics(kernels.Operands(q, k, v, None, Call(scale=1.0)), g)
        p, ds = (written_out(g, q, k, v, scale=1.0)[name] for name in ("p", "ds"))
        rest = np.sort(p, -1)[..., :-1]
        others = rest.sum(-1)
        expected = {
            "entropy": -(rest * np.log(rest)).sum(-1) - (1 - others) * np.log1p(-others),
            "others": others,
            "grad_norm": np.sqrt((ds**2).sum(-1)),
        }
        for name, right in expected.items():
            np.testing.assert_allclose(stats[name], right.astype(float), rtol=1e-3, atol=1.2e-38, err_msg=name)

    def test_log_sum_exp(self):
        rng = np.random.default_rng(6)
        q, k, v = (normal(rng, 3, 7, 4) for _ in range(3))
        lse = kernels.row_statistics(kernels.Operands(q, k, v, None, Call(scale=0.5, offset=-1)))["lse"]
        s = np.where(np.tril(np.ones((7, 7), bool), -1), q @ k.swapaxes(-1, -2) * 0.5, -np.inf)
        np.testing.assert_allclose(lse, np.logaddexp.reduce(s, axis=-1), rtol=1e-12)


class TestThreads:
    def test_every_task_runs_once_and_blas_gets_its_threads_back(self):
        done = []
        before = blas_threads()[0]() if blas_threads() else None
        threads.run(done.append, range(100))
        assert sorted(done) == list(range(100))
        assert before is None or blas_threads()[0]() == before

    def test_an_error_in_a_task_arrives(self):
        def fail(i):
            if i == 7:
                raise ValueError("seven")

        with pytest.raises(ValueError, match="seven"):
            threads.run(fail, range(20))

    def test_callers_in_many_threads_get_the_same_numbers(self, monkeypatch):
        monkeypatch.setattr(blocked, "ONE_TILE", 0)
        monkeypatch.setattr(blocked, "SHORT", 0)
        rng = np.random.default_rng(7)
        arrays = [normal(rng, 2, 4, 32, 8, dtype=np.float32) for _ in range(4)]
        right, results = fused(*arrays, scale=1.0, offset=0), []
        callers = [
            threading.Thread(target=lambda: results.append(fused(*arrays, scale=1.0, offset=0))) for _ in range(4)
        ]
        for each in callers:
            each.start()
        for each in callers:
            each.join()
        assert len(results) == 4
        for result in results:
            for name in ("out", "dq", "dk", "dv"):
                np.testing.assert_array_equal(result[name], right[name])
