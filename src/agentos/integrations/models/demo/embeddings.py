"""Vectors for texts: words, hashed. Texts that share words are near each other, and no more."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b

from agentos.integrations.models.wires.base import MalformedRequest

DIMENSIONS = 256
MOST_DIMENSIONS = 4096

_WORD = re.compile(r"\w+")
# So that "model" and "models" are related.
_STEM = 5


def embed(texts: Sequence[str], dimensions: int | None = None) -> list[list[float]]:
    """One vector of length 1 for each text, always the same for the same text.

    Raises MalformedRequest if there are too many or too few dimensions.
    """
    size = DIMENSIONS if dimensions is None else dimensions
    if not 1 <= size <= MOST_DIMENSIONS:
        raise MalformedRequest(f"Vectors have 1 to {MOST_DIMENSIONS} dimensions, not {size}.")
    return [_vector(text, size) for text in texts]


def _vector(text: str, size: int) -> list[float]:
    vector = [0.0] * size
    for feature, times in _features(text).items():
        seed = int.from_bytes(blake2b(feature.encode("utf-8", "replace"), digest_size=8).digest())
        sign = 1.0 if seed & 1 else -1.0
        vector[(seed >> 1) % size] += sign * math.sqrt(times)
    length = math.hypot(*vector)
    if length == 0:
        vector[0] = length = 1.0
    return [value / length for value in vector]


def _features(text: str) -> Counter[str]:
    features: Counter[str] = Counter()
    for word in _WORD.findall(text.casefold()):
        features[word] += 1
        features["~" + word[:_STEM]] += 1
    return features
