"""What people reported against other frameworks, tried on this one: each as a small input with its right value."""

from __future__ import annotations

import linecache
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn import nn
from tinygrad_attn.cli import main
from tinygrad_attn.nn.cache import KVCache
from tinygrad_attn.nn.sample import pick


class TestOperations:
    def test_the_tail_of_tanhs_gradient(self) -> None:
        for dtype, rtol in (("float32", 1e-6), ("float64", 1e-14)):
            x = ta.Tensor(np.array([10.0, -9.010914, 20.0, 40.0], dtype), requires_grad=True)
            ta.tanh(x).sum().backward()
            e = np.exp(-2 * np.abs(x.numpy().astype(np.longdouble)))
            np.testing.assert_allclose(x.grad.numpy(), (4 * e / (1 + e) ** 2).astype(float), rtol=rtol)

    def test_one_pair_of_pad_is_for_every_axis(self) -> None:
        for x in (np.ones((2, 2)), np.ones(2), np.ones((2, 3, 4))):
            assert ta.pad(x, (1, 2)).shape == np.pad(x, (1, 2)).shape

    @pytest.mark.parametrize("collect", [
        lambda W: W[np.zeros(4096, int)],
        lambda W: ta.take_along_axis(W, np.zeros(4096, int)),
        lambda W: ta.embedding(ta.reshape(W, (1, 1)), np.zeros(4096, int)),
    ])  # fmt: skip
    def test_repeated_indices_in_float16(self, collect: Callable) -> None:
        W = ta.Tensor(np.zeros(1, np.float16), requires_grad=True)
        collect(W).sum().backward()
        assert W.grad.item() == 4096 and W.grad.dtype == "float16"

    def test_masked_arrays_are_refused(self) -> None:
        masked = np.ma.array([1.0, 999.0, 3.0], mask=[0, 1, 0])
        for use in (lambda: ta.Tensor(masked), lambda: ta.ones(3) + masked):
            with pytest.raises(TypeError, match="filled"):
                use()

    def test_a_memory_map_is_an_array(self, tmp_path: Path) -> None:
        data = np.memmap(tmp_path / "m", dtype="f4", mode="w+", shape=(2,))
        assert (ta.Tensor([1.0, 2.0]) * data).numpy().tolist() == [0, 0]
        assert (ta.Tensor([1.0, 0.0]) == data).tolist() == [False, True]

    def test_a_comparison_takes_the_tensors_dtype(self) -> None:
        t = ta.Tensor([0.1, 0.2])
        assert (t == [0.1, 0.2]).all() and (t == np.array([0.1, 0.2])).all()

    @pytest.mark.parametrize("f", [
        lambda: ta.softmax([0.0, -1000.0]),
        lambda: ta.log_softmax([0.0, -1000.0]),
        lambda: ta.logsumexp([0.0, -1000.0]),
        lambda: ta.scaled_dot_product_attention([[100.0, 0.0]], [[1.0, 0.0], [-1.0, 0.0]], [[1.0], [2.0]])[0],
        lambda: ta.fused_attention([[100.0, 0.0]], [[1.0, 0.0], [-1.0, 0.0]], [[1.0], [2.0]]),
    ])  # fmt: skip
    def test_a_caller_who_made_numpy_strict(self, f: Callable) -> None:
        right = f().numpy()
        with np.errstate(all="raise"):
            assert (f().numpy() == right).all()

    def test_backward_in_several_threads_on_one_weight(self) -> None:
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            w = ta.Tensor([0.0], requires_grad=True)
            work = [lambda: [(w * 1.0).sum().backward() for _ in range(200)]] * 4
            threads = [threading.Thread(target=each) for each in work]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(before)
        assert w.grad.item() == 800


class TestModels:
    def test_a_refused_call_leaves_the_cache_as_it_was(self) -> None:
        mha, x = nn.MultiHeadAttention(4, 1, seed=0), ta.randn(1, 2, 4)
        cache = KVCache()
        with pytest.raises(ValueError):
            mha(x, mask=np.ones((3, 3), bool), cache=cache)
        assert len(cache) == 0
        np.testing.assert_array_equal(mha(x, cache=cache).numpy(), mha(x, cache=KVCache()).numpy())

    def test_sampling_from_infinity(self) -> None:
        rng = np.random.default_rng(0)
        assert pick(np.array([0.0, np.inf, 1.0]), 1.0, None, rng) == 1
        for temperature in (0.0, 1.0):
            with pytest.raises(ValueError, match="NaN"):
                pick(np.array([0.0, np.nan, 1.0]), temperature, None, rng)

    def test_only_floats_change_their_float_dtype(self) -> None:
        class Model(ta.Module):
            def __init__(self) -> None:
                self.ids, self.E = ta.arange(4), nn.Embedding(4, 2, seed=0)

        model = Model().astype("float64")
        assert model.ids.dtype == "int64" and model.E.W.dtype == "float64"
        with pytest.raises(TypeError, match=r"int64 \(4,\)"):
            ta.optim.SGD(model.parameters(), lr=0.1)


class TestOptimisers:
    @pytest.mark.parametrize("make", [ta.optim.SGD, ta.optim.Adam, ta.optim.AdamW])
    def test_half_precision_weights_are_refused(self, make: Callable) -> None:
        with pytest.raises(TypeError, match="float16"):
            make([ta.Tensor([1.0], requires_grad=True, dtype="float16")], lr=0.1)

    def test_a_weight_listed_twice_is_clipped_once(self) -> None:
        w = ta.Tensor([1.0, 1.0], requires_grad=True)
        w.grad = [3.0, 4.0]
        assert ta.optim.clip_grad_norm([w, w], 1.0).item() == 5
        np.testing.assert_allclose(w.grad.numpy(), [0.6, 0.8], rtol=1e-6)

    @pytest.mark.parametrize("warmup", [0, 3, 5, 20])
    def test_a_schedule_ends_at_its_floor(self, warmup: int) -> None:
        assert ta.optim.warmup_cosine(5, 5, 1.0, warmup) == ta.optim.warmup_cosine(10, 5, 1.0, warmup) == 0.0


def test_the_rule_that_is_shown_is_that_of_the_last_edit() -> None:
    name = "cell_of_a_notebook.py"
    for text, shown in (("g*3*x**2", "g*3*x**2"), ("g * 3.0 * x**2", "g * 3.0 * x**2")):
        source = f'import tinygrad_attn as ta\n@ta.op(vjps={{"x": lambda g, x: {text}}})\ndef f(x):\n    return x**3\n'
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        names: dict = {}
        exec(compile(source, name, "exec"), names)
        assert names["f"].op.formulas() == [("dL/dx", shown)]


class TestCommandLine:
    def run(self, *words: object, **settings: object) -> subprocess.CompletedProcess:
        env = {**os.environ, **{k: str(v) for k, v in settings.pop("env", {}).items()}}  # type: ignore[attr-defined]
        command = [sys.executable, "-m", "tinygrad_attn", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, env=env, check=False, **settings)  # type: ignore

    def test_a_byte_order_mark_is_no_part_of_a_file(self, tmp_path: Path) -> None:
        from tinygrad_attn.sweep.plan import read
        from tinygrad_attn.tasks.text import Text

        plan = tmp_path / "s.toml"
        plan.write_bytes(b'\xef\xbb\xbfrun = "gradients"\n[grid]\nd_k = [16]\n')
        assert len(read(plan).cells) == 1
        text = tmp_path / "t.txt"
        text.write_bytes(b"\xef\xbb\xbf" + b"hello " * 100)
        assert "\ufeff" not in Text(0, 8, text).vocabulary

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
    def test_a_full_disk_is_one_line(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
        assert main(["train", "copy", "--steps", "2", "--batch", "2", "--out", str(tmp_path)]) == 2
        said = capsys.readouterr().err
        assert "metrics.jsonl" in said and "No space left" in said

    def test_an_extra_that_is_installed_but_broken(self, tmp_path: Path) -> None:
        broken = tmp_path / "fake"
        for package, error in (("tensorboard", "TypeError('descriptors')"), ("matplotlib", "ValueError('backend')")):
            (broken / package).mkdir(parents=True)
            (broken / package / "__init__.py").write_text(f"raise {error}\n")
        done = self.run(
            "train",
            "copy",
            "--steps",
            2,
            "--batch",
            2,
            "--out",
            tmp_path / "r",
            env={"PYTHONPATH": f"{broken}:{os.getcwd()}"},
        )
        assert done.returncode == 0, done.stderr
        assert "tensorboard cannot be used" in done.stderr and "Traceback" not in done.stderr
        assert "matplotlib, which cannot be used here: backend" in done.stdout

    def test_text_between_colons_stays(self, capsys: pytest.CaptureFixture[str]) -> None:
        from tinygrad_attn.cli.output import console

        console().print("s[:x:] train.py:100: y", markup=False, soft_wrap=True)
        assert capsys.readouterr().out == "s[:x:] train.py:100: y\n"

    def test_without_a_standard_output(self) -> None:
        command = f"{sys.executable} -m tinygrad_attn lab >&-"
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
    def test_a_full_disk_behind_the_output_is_one_line(self) -> None:
        command = f"{sys.executable} -m tinygrad_attn lab > /dev/full"
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and "No space left" in done.stderr

    def test_a_reader_that_leaves_costs_no_checkpoint(self, tmp_path: Path) -> None:
        words = f"train copy --steps 4 --batch 2 --save-every 2 --eval-every 2 --out {tmp_path}"
        command = f"{sys.executable} -m tinygrad_attn {words} | head -1"
        subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=60)
        assert list((tmp_path / "checkpoints").glob("step-*2.safetensors"))

    @pytest.mark.parametrize("left", ["", '{"step": 1, "loss": 2.0}\n'])
    def test_a_finished_run_without_its_metrics(self, left: str, tmp_path: Path, capsys) -> None:
        words = ["train", "copy", "--steps", "2", "--batch", "2", "--out", str(tmp_path)]
        assert main(words) == 0
        (tmp_path / "metrics.jsonl").write_text(left)
        assert main([*words[:2], "--resume", *words[6:]]) == 2
        assert "metrics.jsonl has no line with held_out_loss" in capsys.readouterr().err

    def test_colours_that_are_forced_draw_no_bar_in_a_file(self, tmp_path: Path) -> None:
        out = tmp_path / "r"
        done = self.run("train", "copy", "--steps", 3, "--batch", 2, "--out", out, env={"FORCE_COLOR": 1})
        assert done.returncode == 0 and "\x1b[2K" not in done.stdout and "\x1b[?25l" not in done.stdout


def test_nothing_of_this_warns() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ta.gelu(np.array([3e38], np.float32))
        ta.tanh(np.array([1e38, -1e38], np.float32))
