"""Label algebra: symmetries that are found are a group, and new labels are new."""

import random

import numpy as np
import pytest

import eindiff as ed
from eindiff.core import labels
from eindiff.core.labels import canonical, fresh_labels
from eindiff.core.networks import Factor, extended, in_common, matches
from spec import assert_canonical


@pytest.mark.parametrize("limit", [720, 20, 6, 3])
def test_symmetries_are_a_group(monkeypatch, limit):
    """Also where the search for them is cut short."""
    monkeypatch.setattr(labels, "LEAF_LIMIT", limit)
    choose = random.Random(limit)
    symmetries = {"X": (), "S": (((1, 0), 1),), "K": (((1, 0), -1),)}
    for _ in range(500):
        keys = [choose.choice("XXSSK") for _ in range(choose.randint(2, 7))]
        places = [tuple(choose.sample(range(7), 2)) for _ in keys]
        used = sorted({label for pair in places for label in pair})
        free = choose.sample(used, choose.randint(0, len(used)))
        found = canonical(keys, places, [symmetries[key] for key in keys], free)
        if found.sign == 0:
            continue
        group = {*found.symmetries, (tuple(range(len(free))), 1)}
        for p, sign in group:
            assert {(tuple(q[k] for k in p), sign * other) for q, other in group} == group


def test_symmetries_of_many_factors():
    """More orders than are tried: the symmetries that are known are a group, and hold."""
    X, Y = ed.matrix("X", 2, 2), ed.matrix("Y", 2, 2)
    product = ed.einsum("ab,ac,ad,ae,af,ag,ah,ai->bcdefghi", *[X] * 6, *[Y] * 2)
    assert_canonical(product)
    [contraction] = product.children  # in the order of axes in which it is kept
    assert len(contraction.symmetries) > 10
    value = ed.evaluate(contraction, {"X": np.array([[1.0, 2.0], [3.0, 5.0]]), "Y": np.array([[2.0, 7.0], [1.0, 4.0]])})
    for axes, sign in contraction.symmetries:
        np.testing.assert_array_equal(value.transpose(axes), sign * value)


def test_new_labels():
    assert fresh_labels(2) == (0, 1)
    assert fresh_labels(3, (4, 1), range(3)) == (5, 6, 7)
    assert fresh_labels(0, (9,)) == ()


def test_names_of_labels():
    """Each label has one name; a new one is nobody else's, and not fixed."""
    assert extended({}, (0, 1), (5, 6)) == {0: 5, 1: 6}
    assert extended({}, (0, 0), (5, 6)) is None
    assert extended({}, (0, 1), (5, 5)) is None
    assert extended({0: 5}, (0, 1), (5, 6)) == {0: 5, 1: 6}
    assert extended({0: 5}, (1,), (5,)) is None
    assert extended({}, (0,), (5,), fixed=(5,)) is None
    assert extended({0: 5}, (0,), (5,), fixed=(5,)) == {0: 5}


def test_parts_of_a_network():
    """`A x` is twice in `x'A'A x`; a symmetric matrix fits both ways round."""
    A, S, x = ed.matrix("A", "n", "n"), ed.symmetric("S", "n"), ed.vector("x", "n")
    whole: list[Factor] = [(A, (0, 1)), (x, (1,)), (A, (0, 2)), (x, (2,))]
    found = [(sorted(places), names) for places, names in matches([(A, (7, 8)), (x, (8,))], whole, {})]
    assert sorted(found, key=str) == [([0, 1], {7: 0, 8: 1}), ([2, 3], {7: 0, 8: 2})]
    assert len(list(matches([(S, (7, 8))], [(S, (0, 1))], {}))) == 2
    assert list(matches([(S, (7, 8))], [(S, (0, 1))], {8: 0})) == [([0], {8: 0, 7: 1})]
    assert list(matches([(x, (7,)), (x, (7,))], [(x, (0,)), (x, (1,))], {})) == []


def test_most_of_two_networks():
    """`A B x` and `A B y` have A and B in common, under one naming."""
    A, B, x, y = ed.matrix("A", "n", "n"), ed.matrix("B", "n", "n"), ed.vector("x", "n"), ed.vector("y", "n")
    ours: list[Factor] = [(A, (0, 1)), (B, (1, 2)), (x, (2,))]
    theirs: list[Factor] = [(B, (5, 6)), (A, (0, 5)), (y, (6,))]
    pairs, names = max(in_common(ours, theirs, {0: 0}), key=lambda found: len(found[0]))
    assert sorted(pairs) == [(0, 1), (1, 0)]
    assert names == {0: 0, 5: 1, 6: 2}


def test_signs_of_antisymmetric_factors_in_sums():
    """A sum of products with antisymmetric factors is known to be antisymmetric itself, in all its axes."""
    X = ed.matrix("X", "n", "n")
    minors = ed.einsum("ik,jl->ijkl", X, X) - ed.einsum("il,jk->ijkl", X, X)
    total = (
        ed.einsum("ak,bclm->abcklm", X, minors)
        - ed.einsum("al,bckm->abcklm", X, minors)
        + ed.einsum("am,bckl->abcklm", X, minors)
    )
    assert_canonical(total)
    for axes in [(0, 2, 1, 3, 4, 5), (0, 1, 2, 4, 3, 5), (0, 1, 2, 3, 5, 4), (0, 1, 2, 5, 4, 3)]:
        assert ed.transpose(total, axes) is -total
    assert ed.transpose(total, (0, 2, 1, 4, 5, 3)) is -total
