"""The scripted model: what the engine emits is what was written."""

from __future__ import annotations

import numpy as np

from bench.scale.model import VOCABULARY, Driver, Script, zipf
from bench.support import builds
from spectrie import _core


def engine(**options: object) -> _core.Engine:
    made = builds.engine(
        vocabulary_size=VOCABULARY,
        eos_token_ids=[],
        num_pages=64,
        max_context=512,
        max_running=4,
        **options,
    )
    made.set_costs([1, 64], [10.0, 10.1])
    return made


def scripts(count: int, tokens: int = 60) -> list[Script]:
    random = np.random.default_rng(1)
    return [Script(zipf(random, tokens), 20) for _ in range(count)]


def test_answers_have_their_length_and_repeated_text_is_accepted() -> None:
    driver = Driver(engine(speculation="auto", holdout_every=0))
    (script,) = scripts(1)
    first = driver.run([script], namespace="a", learn=True)
    load = driver.engine.load()
    assert load.generated_tokens == 40
    assert load.accepted_tokens < 20
    again = driver.run([script], namespace="a")
    assert len(again) < len(first) / 2, "what was learnt is drafted"


def test_preempted_requests_end_as_written() -> None:
    driver = Driver(engine(speculation="off"))
    driver.run(scripts(4, 400), namespace="a")
    load = driver.engine.load()
    assert load.preemptions > 0
    assert load.generated_tokens == 4 * 380


def test_tops_are_given_for_recorded_rows_alone() -> None:
    tokens = zipf(np.random.default_rng(2), 200)
    tops = np.tile(np.arange(1, 9, dtype=np.int32), (200, 1))
    tops[:-1, 0] = tokens[1:]
    given = np.tile(np.array([0.9, *[0.01] * 7], np.float32), (200, 1))
    script = Script(tokens, 20, (tops, given))
    accepted = []
    for recycle in ("off", "decode"):
        driver = Driver(engine(speculation="auto", holdout_every=0, recycle=recycle))
        for namespace in ("a", "a"):
            driver.run([script], namespace=namespace, learn=recycle != "off")
        accepted.append(driver.engine.load().accepted_tokens)
    assert accepted[1] > accepted[0]
