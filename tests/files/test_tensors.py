"""safetensors files: what is written is read, and a broken file is named with what broke."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.testing import assert_array_equal

import tinygrad_attn as ta
from tinygrad_attn.files.tensors import read_tensors, write_tensors

DTYPES = st.sampled_from(["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"])
ARRAYS = DTYPES.flatmap(lambda dtype: arrays(dtype, array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)))


@given(st.dictionaries(st.text(max_size=8).filter(lambda name: name != "__metadata__"), ARRAYS, max_size=5))
def test_round_trip(tmp_path_factory, tensors):
    path = tmp_path_factory.mktemp("files") / "a.safetensors"
    write_tensors(path, tensors, {"note": "ü"})
    found, metadata = read_tensors(path)
    assert metadata == {"note": "ü"} and found.keys() == tensors.keys()
    for name, array in tensors.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()


def test_tensors_views_and_byte_orders(tmp_path):
    path = tmp_path / "a.safetensors"
    tensors = {"tensor": ta.ones((2, 3)), "view": np.arange(6.0).reshape(2, 3).T, "big": np.array([1.5, 2.5], ">f4")}
    write_tensors(path, tensors)
    found, metadata = read_tensors(path)
    assert metadata == {}
    for name, value in tensors.items():
        assert_array_equal(found[name], value.numpy() if name == "tensor" else value)
    found["view"][0, 0] = 7.0  # ours to change


def test_the_layout_is_the_published_one(tmp_path):
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"b": np.array([1, 2], np.uint8), "a": np.array([1.0], np.float32)})
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    assert length % 8 == 0
    assert json.loads(content[8 : 8 + length]) == {
        "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
        "b": {"dtype": "U8", "shape": [2], "data_offsets": [4, 6]},
    }
    assert content[8 + length :] == b"\x00\x00\x80?\x01\x02"


def test_bfloat16_is_read_exactly(tmp_path):
    values = np.array([1.0, -0.15625, 3.0e38], np.float32)
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    write_tensors(tmp_path / "a", {"x": bits})
    content = (tmp_path / "a").read_bytes().replace(b'"U16"', b'"BF16"').replace(b" ", b"", 1)
    (tmp_path / "a").write_bytes(content)
    assert_array_equal(read_tensors(tmp_path / "a")[0]["x"], (bits.astype(np.uint32) << 16).view(np.float32))


def file(path, header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    "header, data, text",
    [
        ({"w": ENTRY}, b"1234567", "truncated: tensor 'w' ends at byte 8 of the data, the file has 7"),
        ({"w": {**ENTRY, "shape": [3]}}, b"12345678", "tensor 'w': F32 of shape (3,) needs 12 bytes, has 8"),
        ({"w": {**ENTRY, "dtype": "F8_E4M3"}}, b"12345678", "tensor 'w' has dtype F8_E4M3"),
        ({"w": {**ENTRY, "data_offsets": [8, 0]}}, b"12345678", "tensor 'w' is described by"),
        ({"w": {**ENTRY, "data_offsets": [-8, 0]}}, b"12345678", "tensor 'w' is described by"),
        ({"w": {"dtype": "F32"}}, b"", "tensor 'w' is described by"),
        ({"w": {**ENTRY, "shape": [-1, -2]}}, b"12345678", "tensor 'w' is described by"),
        ({"w": {**ENTRY, "shape": "ab"}}, b"12345678", "tensor 'w' is described by"),
        ({"w": 3}, b"", "tensor 'w' is described by 3"),
        ([1], b"", "its header is a list"),
        (b"{nonsense", b"", "its header is not JSON"),
        (b"\xff\xfe", b"", "its header is not JSON"),
    ],
)
def test_broken_files(tmp_path, header, data, text):
    with pytest.raises(ValueError) as error:
        read_tensors(file(tmp_path / "broken", header, data))
    assert text in str(error.value) and "broken" in str(error.value)


def test_every_truncation_is_noticed(tmp_path):
    path = tmp_path / "a"
    write_tensors(path, {"w": np.ones((2, 2)), "v": np.ones(3, np.float32)})
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"truncated"):
            read_tensors(path)
    file(path, {}, length=2**60)
    with pytest.raises(ValueError, match="not a safetensors file"):
        read_tensors(path)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a"
    write_tensors(path, {"w": np.ones(2)})
    with pytest.raises(TypeError, match="'z' has dtype complex128"):
        write_tensors(path, {"w": np.zeros(2), "z": np.ones(2, complex)})
    assert_array_equal(read_tensors(path)[0]["w"], [1, 1])
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
