"""Inputs that are wrong: what was expected, what came, which operation, which line, what to write."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_attn as ta


def ones(*shape: int, leaf: bool = False) -> ta.Tensor:
    return ta.ones(shape, requires_grad=leaf)


WRONG = {
    "matmul": (
        lambda: ones(2, 3) @ ones(4, 3),
        ValueError,
        "matmul: expected equal inner lengths, 3 against 4",
        "did you mean x @ y.mT?",
        "x (2, 3), y (4, 3)",
    ),
    "matmul of a number": (
        lambda: ones(2, 3) @ ta.Tensor(1.0),
        ValueError,
        "matmul: expected at least 1-D operands",
        "write *",
    ),
    "broadcasting": (
        lambda: ones(2, 3) + ones(4, 3),
        ValueError,
        "add: expected shapes that broadcast",
        "x (2, 3), y (4, 3)",
    ),
    "broadcasting a list": (
        lambda: ones(3) * [1.0, 2.0],
        ValueError,
        "mul: expected shapes that broadcast",
        "x (3,), y (2,)",
    ),
    "where": (
        lambda: ta.where(np.ones((2, 2), bool), ones(3), 0.0),
        ValueError,
        "where: expected shapes that broadcast",
        "condition (2, 2) bool, x (3,)",
    ),
    "broadcast_to": (
        lambda: ta.broadcast_to(ones(2), (3, 3)),
        ValueError,
        "broadcast_to: expected shapes that broadcast",
        "x (2,)",
    ),
    "mask": (
        lambda: ta.masked_fill(ones(2, 3), np.ones((4, 3), bool), 0.0),
        ValueError,
        "masked_fill: expected shapes that broadcast",
        "x (2, 3), mask (4, 3) bool",
    ),
    "reshape": (lambda: ones(2, 3).reshape(4, -1), ValueError, "reshape: cannot reshape array of size 6", "x (2, 3)"),
    "concatenate": (
        lambda: ta.concatenate([ones(2, 3), ones(2, 4)]),
        ValueError,
        "concatenate: ",
        "tensors[0] (2, 3), tensors[1] (2, 4)",
    ),
    "nothing to stack": (lambda: ta.stack([]), ValueError, "stack: expected at least one tensor"),
    "split": (
        lambda: ta.split(ones(2, 5), 2),
        ValueError,
        "split: 5 entries along axis -1 cannot be cut into 2 equal parts",
    ),
    "pad": (
        lambda: ta.pad(ones(2, 2), ((1, -1), (0, 0))),
        ValueError,
        "pad: expected a (before, after) pair of numbers >= 0",
    ),
    "einsum letters": (
        lambda: ta.einsum("ij,jk->ik", ones(2), ones(2, 2)),
        ValueError,
        "einsum: 'ij' has 2 letters for an operand of 1 axes",
    ),
    "einsum operands": (lambda: ta.einsum("i,i->i", ones(2)), ValueError, "einsum: 'i,i->i' names 2 operands, got 1"),
    "einsum diagonal": (lambda: ta.einsum("ii->i", ones(2, 2)), ValueError, "einsum: a letter stands twice in 'ii'"),
    "axis of a sum": (
        lambda: ones(2, 3).sum(axis=3),
        np.exceptions.AxisError,
        "sum: axis 3 is out of bounds for array of dimension 2",
    ),
    "axis of a softmax": (
        lambda: ta.softmax(ones(2, 3), axis=-3),
        np.exceptions.AxisError,
        "softmax: axis -3 is out of bounds",
    ),
    "axis of a concatenate": (
        lambda: ta.concatenate([ones(2), ones(2)], 1),
        np.exceptions.AxisError,
        "concatenate: axis 1 is out of bounds",
    ),
    "axes of a transpose": (lambda: ones(2, 3).transpose(0, 0), ValueError, "transpose: ", "x (2, 3)"),
    "index": (lambda: ones(2)[5], IndexError, "getitem: index 5 is out of bounds for axis 0 with size 2", "x (2,)"),
    "too many indices": (lambda: ones(2)[0, 0], IndexError, "getitem: too many indices", "x (2,)"),
    "float index": (
        lambda: ones(2)[np.array([0.5])],
        IndexError,
        "getitem: expected integers or booleans as an index, got dtype float64",
        "write index.astype(int)",
    ),
    "NaN label": (
        lambda: ta.cross_entropy(ones(1, 2), [np.nan]),
        TypeError,
        "cross_entropy: expected integer targets, got float64",
    ),
    "label out of range": (
        lambda: ta.cross_entropy(ones(2, 3), [1, 3]),
        IndexError,
        "cross_entropy: target 3 is outside the 3 classes",
    ),
    "negative label": (
        lambda: ta.cross_entropy(ones(2, 3), [1, -1]),
        IndexError,
        "cross_entropy: target -1 is outside the 3 classes",
    ),
    "labels of another shape": (
        lambda: ta.cross_entropy(ones(2, 3), [1, 1, 1]),
        ValueError,
        "cross_entropy: expected targets of shape (2,), got (3,)",
    ),
    "token out of range": (
        lambda: ta.embedding(ones(3, 2), [0, 3]),
        IndexError,
        "embedding: index 3 is outside a table of 3 rows",
    ),
    "negative token": (
        lambda: ta.embedding(ones(3, 2), [-1]),
        IndexError,
        "embedding: index -1 is outside a table of 3 rows",
    ),
    "float token": (
        lambda: ta.embedding(ones(3, 2), [1.0]),
        TypeError,
        "embedding: expected integer indices, got float64",
    ),
    "two axes of a softmax": (
        lambda: ta.softmax(ones(2, 3), (0, 1)),
        TypeError,
        "softmax: expected one axis, a whole number, got (0, 1)",
    ),
    "no axis of a running sum": (lambda: ta.cumsum(ones(2, 3), None), TypeError, "cumsum: expected one axis"),
    "no axis of a concatenate": (
        lambda: ta.concatenate([ones(2), ones(2)], None),
        TypeError,
        "concatenate: expected one axis, got None; write x.reshape(-1) of each first",
    ),
    "label smoothing": (
        lambda: ta.cross_entropy(ones(1, 2), [0], label_smoothing=2.0),
        ValueError,
        "cross_entropy: expected label_smoothing between 0 and 1, got 2.0",
    ),
    "comparison": (
        lambda: ones(2, 3) > np.ones(5),
        ValueError,
        ">: expected shapes that broadcast",
        "x (2, 3), y (5,)",
    ),
    "comparison with nothing": (
        lambda: ones(2) <= None,
        TypeError,
        "<=: expected a Tensor, an array or a number, got None",
    ),
    "operand of None": (lambda: ones(2) + None, TypeError, "add: expected a Tensor, an array or a number, got None"),
    "bound that wants a gradient": (
        lambda: ta.clip(ones(2), ones(leaf=True)),
        TypeError,
        "clip: low has no gradient here; write low.detach() to use its value",
    ),
    "fill that wants a gradient": (
        lambda: ta.masked_fill(ones(2), [True, False], ones(leaf=True)),
        TypeError,
        "masked_fill: value has no gradient here",
    ),
    "operand": (lambda: ones(2) * "a", TypeError, "mul: expected a Tensor, an array or a number, got str"),
    "operand of a sequence": (
        lambda: ta.concatenate([ones(2), "a"]),
        TypeError,
        "concatenate: expected a Tensor, an array or a number, got str",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_operation_names_itself_the_input_and_the_line(name: str) -> None:
    call, kind, *texts = WRONG[name]
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    assert type(caught.value) is kind
    for text in texts:
        assert text in message
    if name != "nothing to stack" and "cut into" not in message:  # found before an operation runs
        assert "\n  at test_errors.py:" in message and "lambda: " in message


class TestBackward:
    def test_of_several_numbers_without_a_gradient(self) -> None:
        y = ones(2, leaf=True) * 2
        with pytest.raises(
            RuntimeError,
            match=r"(?s)shape \(2,\) needs its gradient: write loss.sum\(\).backward\(\).*mul \(test_errors",
        ):
            y.backward()

    def test_with_a_gradient_of_another_shape(self) -> None:
        y = ones(2, leaf=True) * 2
        with pytest.raises(
            ValueError, match=r"(?s)expected a gradient of shape \(2,\), got \(1,\).*mul \(test_errors.py:\d+: y = ones"
        ):
            y.backward([1.0])
        with pytest.raises(ValueError, match=r"expected a gradient of shape \(2,\), got \(\)"):
            y.backward(1.0)

    def test_without_a_graph(self) -> None:
        for y in (ta.Tensor(1.0), ta.Tensor(1.0, True).detach() * 2, ta.Tensor(1)):
            with pytest.raises(RuntimeError, match="has no graph: nothing it was made from has requires_grad=True"):
                y.backward()

    def test_twice(self) -> None:
        loss = (ones(2, leaf=True) * 2).sum()
        loss.backward()
        with pytest.raises(RuntimeError, match=r"sum \(test_errors.py:\d+: loss = .*released.*retain_graph=True"):
            loss.backward()

    def test_of_something_else(self) -> None:
        with pytest.raises(TypeError, match="expected a Tensor, got float"):
            ta.grad(1.0, ones(1, leaf=True))


class TestGrad:
    def test_an_unused_input_is_named(self) -> None:
        x, bias = ones(1, leaf=True), ones(1, leaf=True).named("bias")
        other = ta.ones(3, requires_grad=True)
        with pytest.raises(RuntimeError, match="the outputs do not depend on input 1 \\('bias'\\)"):
            ta.grad(x * 2, [x, bias])
        with pytest.raises(RuntimeError, match=r"input 0 \(shape \(3,\), a leaf \(test_errors.py:\d+: other = "):
            ta.grad(x * 2, other)

    def test_an_input_that_wants_no_gradient_is_named(self) -> None:
        with pytest.raises(
            RuntimeError, match=r"input 0 \(shape \(1,\)\) does not require a gradient; make it with requires_grad=True"
        ):
            ta.grad(ones(1, leaf=True) * 2, ones(1))
        with pytest.raises(RuntimeError, match=r"input 0 \(float\) does not require"):
            ta.grad(ones(1, leaf=True) * 2, 1.0)


class TestSplit:
    """split is made of operations: it speaks for itself."""

    @pytest.mark.parametrize(
        ("parts", "axis", "kind", "text"),
        [(1, 5, np.exceptions.AxisError, r"split: axis 5 is out of bounds; got x \(2, 6\)"),
         (1.5, 0, TypeError, "split: expected a number of parts or a list of positions, got 1.5")],
    )  # fmt: skip
    def test_what_does_not_fit(self, parts, axis, kind, text) -> None:
        with pytest.raises(kind, match=text):
            ta.split(ones(2, 6), parts, axis)

    def test_a_number_of_numpy_is_a_number(self) -> None:
        assert [part.shape for part in ta.split(ones(2, 6), np.int64(3))] == [(2, 2)] * 3
        assert ta.pad(ones(2), np.int64(1)).shape == (4,) and ta.broadcast_to(ones(1), 3).shape == (3,)


class TestTensor:
    def test_lengths_given_one_by_one(self) -> None:
        for make in (ta.zeros, ta.ones):
            with pytest.raises(TypeError, match="takes 1 positional argument"):
                make(2, 3)  # the 3 would have been requires_grad

    def test_a_device_that_is_no_name(self) -> None:
        with pytest.raises(ValueError, match="unknown device 0; expected one of 'cpu', 'cuda'"):
            ta.Tensor([1.0], device=0)

    def test_letters_of_einsum_come_first(self) -> None:
        with pytest.raises(TypeError, match="einsum: expected the letters first"):
            ta.einsum(ones(2), "i->")

    def test_from_dlpack_takes_arrays_of_real_numbers(self) -> None:
        with pytest.raises(TypeError, match="expected an array with the DLPack protocol, got list"):
            ta.from_dlpack([1.0])
        with pytest.raises(TypeError, match="expected real numbers, got dtype complex128"):
            ta.from_dlpack(np.ones(2, complex))

    def test_an_integer_leaf_shows_the_float_spelling(self) -> None:
        for data, dtype in [([7], "int64"), (True, "bool"), (np.ones(2, np.uint8), "uint8")]:
            with pytest.raises(
                TypeError, match=rf"only floats have gradients, got {dtype}; .*Tensor\(\[7.0\], requires_grad=True\)"
            ):
                ta.Tensor(data, requires_grad=True)

    def test_nested_lists_that_are_no_rectangle(self) -> None:
        with pytest.raises(ValueError, match="the nested lists do not form a rectangle"):
            ta.Tensor([[1.0, 2.0], [3.0]])

    def test_an_item_of_several(self) -> None:
        with pytest.raises(ValueError, match=r"item: expected one entry, got shape \(2,\)"):
            ones(2).item()

    def test_no_gradient_can_reach_a_constant(self) -> None:
        for call in (lambda: ones(2).retain_grad(), lambda: ones(2).register_hook(print)):
            with pytest.raises(RuntimeError, match="this tensor has no graph, so no gradient will reach it"):
                call()


class TestDevices:
    def test_an_unknown_device(self) -> None:
        for device in ("tpu", "cuda:x", "gpu"):
            with pytest.raises(ValueError, match=f"unknown device '{device}'; expected"):
                ta.Tensor([1.0], device=device)

    def test_cuda_asked_for_and_absent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import sys

        monkeypatch.setitem(sys.modules, "cupy", None)  # as where it is not installed
        for call in (lambda: ta.Tensor([1.0], device="cuda"), lambda: ones(1).to("cuda:1")):
            with pytest.raises(
                RuntimeError, match=r"CuPy is not installed; install it with: pip install .*cuda.* or use device='cpu'"
            ):
                call()
