"""Reading and writing safetensors files, the format in which checkpoints travel, without a library.

    8 bytes     n, the length of the header, little-endian
    n bytes     JSON: {name: {"dtype": "F32", "shape": [2, 3], "data_offsets": [start, end]}, ...}
                and "__metadata__": {text: text}
    the rest    the arrays' bytes, row by row; offsets count from here

A file holds numbers and names, nothing that is run on reading.
Source: https://github.com/huggingface/safetensors, section Format.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .atomic import replacing

_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1",
}  # fmt: skip
_NAMES = {np.dtype(code): name for name, code in _DTYPES.items()}
_LONGEST_HEADER = 100_000_000  # the format's own limit


def write_tensors(path: str | Path, tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> None:
    """Write arrays (or Tensors) by name.  The file appears whole or not at all, also after a power cut.

    Errors: TypeError for a dtype that the format does not have.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_tensors(folder + "/a.safetensors", {"w": np.ones((2, 3), "float32")})
    ...     read_tensors(folder + "/a.safetensors")[0]["w"].shape
    (2, 3)
    """
    arrays = {name: _host(value) for name, value in tensors.items()}
    # wide numbers first, so that every array starts at a multiple of its own width
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    start = 0
    for name in order:
        array = arrays[name]
        if array.dtype not in _NAMES:
            raise TypeError(f"write_tensors: {name!r} has dtype {array.dtype}, which safetensors cannot hold")
        end = start + array.nbytes
        header[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with replacing(Path(path), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in order:
            file.write(arrays[name].tobytes())


def read_tensors(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """All arrays of a safetensors file by name, and its metadata.  bfloat16 becomes float32, exactly.

    Errors: ValueError naming the file, and the tensor, for anything truncated or malformed."""
    path = Path(path)
    size = path.stat().st_size
    with open(path, "rb") as file:
        if size < 8:
            raise ValueError(f"{path}: truncated or not safetensors: {size} bytes, expected at least 8")
        (length,) = struct.unpack("<Q", file.read(8))
        if length > _LONGEST_HEADER:
            raise ValueError(f"{path}: not a safetensors file: it would begin with a header of {length} bytes")
        if size < 8 + length:
            raise ValueError(f"{path}: truncated: a header of {length} bytes was announced, {size - 8} came")
        header = _header(path, file.read(length))
        metadata = header.pop("__metadata__", {})
        arrays = {}
        for name, entry in header.items():
            dtype, shape, start = _described(path, name, entry, size - 8 - length)
            file.seek(8 + length + start)
            array = np.fromfile(file, "<u2" if dtype == "BF16" else _DTYPES[dtype], math.prod(shape)).reshape(shape)
            if dtype == "BF16":  # the upper half of a float32
                array = (array.astype(np.uint32) << 16).view(np.float32)
            arrays[name] = array
    return arrays, dict(metadata)


def _header(path: Path, text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path}: not a safetensors file: its header is not JSON ({error})") from None
    if not isinstance(header, dict):
        raise ValueError(f"{path}: not a safetensors file: its header is a {type(header).__name__}, expected an object")
    return header


def _described(path: Path, name: str, entry: Any, available: int) -> tuple[str, tuple[int, ...], int]:
    """dtype, shape and first byte of a tensor, if its description is sound and its bytes are there."""
    try:
        dtype, shape, (start, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        count = math.prod(shape)
        sound = 0 <= start <= end and all(isinstance(n, int) and n >= 0 for n in (start, *shape))
    except (KeyError, TypeError, ValueError):
        sound = False
    if not sound:
        raise ValueError(f"{path}: tensor {name!r} is described by {entry!r}; expected dtype, shape and data_offsets")
    if dtype not in _DTYPES and dtype != "BF16":
        raise ValueError(f"{path}: tensor {name!r} has dtype {dtype}; readable are {', '.join([*_DTYPES, 'BF16'])}")
    width = 2 if dtype == "BF16" else np.dtype(_DTYPES[dtype]).itemsize
    if end - start != count * width:
        needs = f"{dtype} of shape {shape} needs {count * width} bytes, has {end - start}"
        raise ValueError(f"{path}: tensor {name!r}: {needs}")
    if end > available:
        raise ValueError(f"{path}: truncated: tensor {name!r} ends at byte {end} of the data, the file has {available}")
    return dtype, shape, start


def _host(value: Any) -> np.ndarray:
    array = value.numpy() if hasattr(value, "numpy") else np.asarray(value)
    array = np.ascontiguousarray(array).reshape(array.shape)
    return array.astype(array.dtype.newbyteorder("<")) if array.dtype.byteorder == ">" else array
