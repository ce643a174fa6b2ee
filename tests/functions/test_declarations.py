"""Declarations of variables: sizes, properties, and what is refused."""

from __future__ import annotations

import pytest

import eindiff as ed


def test_tensor_takes_sizes_like_matrix_or_as_one_tuple():
    T = ed.tensor("T", "l", "m", 3)
    assert T.shape == ("l", "m", 3) and T is ed.tensor("T", ("l", "m", 3)) is ed.tensor("T", ["l", "m", 3])
    assert ed.tensor("A", "m", "n") is ed.matrix("A", "m", "n") and ed.tensor("x", 4) is ed.vector("x", 4)
    assert ed.tensor("c") is ed.tensor("c", ()) is ed.scalar("c")


def test_tensor_has_properties_behind_its_sizes():
    assert ed.tensor("T", 2, 3, 4, "positive") is ed.tensor("T", (2, 3, 4), "positive")
    assert ed.tensor("S", "n", "n", "symmetric", "positive") is ed.symmetric("S", "n", "positive")
    assert ed.tensor("c", "positive") is ed.scalar("c", "positive")
    assert ed.tensor("T", ("positive", "n")).shape == ("positive", "n")


def test_properties_have_the_words_of_others_too():
    assert ed.matrix("M", "n", "n", "SPD") is ed.matrix("M", "n", "n", "psd")
    assert ed.matrix("L", "n", "n", "UnitLowerTriangular") is ed.matrix("L", "n", "n", "lower", "unit")


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((2, "positive", 3), ["T", "unknown property 3"]),
        ((2, 0), ["T", "a size is a name or a positive integer, not 0"]),
        ((2, None), ["T", "not None"]),
        ((2, 2.5), ["T", "not 2.5"]),
        ((2, ("m", "n")), ["T", "not ('m', 'n')"]),
        ((2, ["m"]), ["T", "not ['m']"]),
        (("m", "n", "k", "psd"), ["T", "only a square matrix can be psd", "m×n×k"]),
        (("two words",), ["T", "not 'two words'"]),
    ],
)
def test_tensor_says_what_is_no_size(sizes, words):
    with pytest.raises(ed.EindiffError) as caught:
        ed.tensor("T", *sizes)
    assert all(word in str(caught.value) for word in words), caught.value
