"""The fake workers' caches count what a prefix cache would compute."""

from __future__ import annotations

from bench.router.caches import PAGE, Cache, Trace, computed


def prompt(first: int, tokens: int) -> list[int]:
    return [first, *range(tokens - 1)]


def test_what_was_held_is_not_computed_again() -> None:
    cache = Cache(100)
    assert cache.compute(prompt(0, 100)) == 100
    assert cache.compute(prompt(0, 100) + [7] * 60) == 160 - 6 * PAGE
    assert cache.compute(prompt(1, 100)) == 100


def test_ends_of_the_least_recent_prompts_go_first() -> None:
    cache = Cache(10)
    cache.compute(prompt(0, 8 * PAGE))
    cache.compute(prompt(1, 4 * PAGE))
    assert cache.compute(prompt(0, 8 * PAGE)) == 2 * PAGE


def test_turns_go_on_from_the_ones_before_and_systems_are_shared() -> None:
    trace = Trace(conversations=4, turns=2, turn_tokens=32, systems=2, system_tokens=64)
    assert trace.tokens == 4 * 2 * 32 + 2 * 64
    assert trace.prompt(0, 2)[:96] == trace.prompt(0, 1)
    assert trace.prompt(0, 1)[:64] == trace.prompt(2, 1)[:64]
    assert trace.prompt(0, 1)[64:] != trace.prompt(2, 1)[64:]
    assert trace.prompt(0, 1)[0] != trace.prompt(1, 1)[0]


def test_more_caches_in_turn_compute_more_than_one() -> None:
    trace = Trace(conversations=8, turns=4, turn_tokens=64, systems=2, system_tokens=128)
    prompts = [trace.prompt(one, turn) for turn in (1, 2, 3, 4) for one in range(8)]
    pages = trace.tokens // 8 // PAGE
    one, four = computed(prompts, 1, 4 * pages), computed(prompts, 4, pages)
    assert sum(four) > sum(one) >= trace.tokens
