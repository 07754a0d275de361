"""Arrays of floats inside of results that are kept as JSON: their bytes as text, so that not a bit of them changes."""

import base64
import binascii
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator

FloatArray = NDArray[np.float64]


def write_floats(values: FloatArray) -> str:
    """Return an array as text: `rows:` and its bytes, little-endian, in base64; a flat one has 0 rows."""
    rows = values.shape[0] if values.ndim == 2 else 0
    return f"{rows}:{base64.b64encode(values.astype('<f8').tobytes()).decode('ascii')}"


def read_floats(text: object) -> FloatArray:
    """Return the array that `write_floats` wrote.

    Raises:
        ValueError: it is no such text.

    """
    if not isinstance(text, str):
        raise ValueError("no array as text")
    rows, _, data = text.partition(":")
    values = np.frombuffer(binascii.a2b_base64(data, strict_mode=True), dtype="<f8").astype(np.float64)
    return values.reshape(int(rows), -1) if int(rows) else values


FloatColumns = Annotated[FloatArray, PlainValidator(read_floats), PlainSerializer(write_floats)]
