"""The covering combinations cover."""

from __future__ import annotations

from itertools import product

from tests.exactness.cases import FORMS, cases, share
from tests.exactness.matrix import COVERING, DIMENSIONS, FULL, REFERENCES, Combination
from tests.exactness.pairwise import cover, pairs_of


def test_every_pair_of_values_occurs() -> None:
    rows = cover({"a": (1, 2, 3), "b": "xy", "c": (True, False)})
    wanted = set()
    for values in product((1, 2, 3), "xy", (True, False)):
        wanted |= pairs_of(dict(zip("abc", values, strict=True)))
    assert set().union(*map(pairs_of, rows)) == wanted
    assert len(rows) <= 8
    given = {"a": 2, "b": "x", "c": False}
    others = cover({"a": (1, 2, 3), "b": "xy", "c": (True, False)}, [given])
    assert set().union(pairs_of(given), *map(pairs_of, others)) == wanted
    assert given not in others


def test_ci_covers_every_two_values_on_one_rank_and_every_case() -> None:
    on_one = {name: values for name, values in DIMENSIONS.items() if name != "tensor_parallel"}

    def row(one: Combination) -> dict[str, object]:
        return {name: getattr(one, name) for name in on_one}

    alone = [one for one in [*REFERENCES, *dict(COVERING)] if one.tensor_parallel == 1]
    found = set().union(*(pairs_of(row(one)) for one in alone))
    for values in product(*on_one.values()):
        assert pairs_of(dict(zip(on_one, values, strict=True))) <= found
    assert {case.id for _, chosen in COVERING for case in chosen} == {c.id for c in cases()}


def test_ci_asks_ranks_for_every_form_and_the_full_product_for_all_of_them_in_each_way() -> None:
    ranks = [pair for pair in COVERING if pair[0].tensor_parallel > 1]
    (in_bulk,) = [{case.form for case in chosen} for one, chosen in ranks if one.concurrency >= 32]
    assert in_bulk == set(FORMS)
    assert all(len(chosen) >= 3 for _, chosen in ranks)
    for name in DIMENSIONS:
        if name != "tensor_parallel":
            assert len({getattr(one, name) for one, _ in ranks}) == 2, name
    assert all({case.form for case in chosen} == set(FORMS) for _, chosen in FULL)
    assert {one for one, _ in ranks} <= set(dict(FULL))


def test_every_part_has_every_form() -> None:
    for num_parts in (2, 24):
        parts = [share(part, num_parts) for part in range(num_parts)]
        assert all({case.form for case in part} == set(FORMS) for part in parts)
        assert {case.id for part in parts for case in part} == {case.id for case in cases()}
