from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.integrations.models.demo.embeddings import embed
from agentos.integrations.models.wires.base import MalformedRequest


def nearness(one: str, other: str) -> float:
    first, second = embed([one, other])
    return sum(a * b for a, b in zip(first, second, strict=True))


def test_related_texts_are_nearer() -> None:
    question = "How do I reset the password of my account?"
    related = "Resetting a password: open your account and press reset."
    unrelated = "Bananas grow in bunches and turn yellow when ripe."
    assert nearness(question, related) > nearness(question, unrelated) + 0.2
    assert nearness("one model", "many models") > nearness("one model", "many moths")


def test_capitals_and_punctuation_do_not_matter() -> None:
    assert nearness("Hello, World!", "hello world") == pytest.approx(1)


@given(st.lists(st.text(), max_size=4), st.none() | st.integers(1, 600))
@settings(deadline=None)
def test_every_text_has_a_vector_of_length_one(texts: list[str], dimensions: int | None) -> None:
    vectors = embed(texts, dimensions)
    assert len(vectors) == len(texts)
    for vector in vectors:
        assert len(vector) == (dimensions or 256)
        assert math.hypot(*vector) == pytest.approx(1)
    assert vectors == embed(texts, dimensions)


@pytest.mark.parametrize("dimensions", [0, -1, 4097])
def test_impossible_dimensions_are_refused(dimensions: int) -> None:
    with pytest.raises(MalformedRequest, match="dimensions"):
        embed(["x"], dimensions)
