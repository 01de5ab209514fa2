"""`python -m tests.model.launch.drafts.interpreted MODEL HEAD ORDER SCENE...`: a head's bytes by Triton's interpreter.

In a process of its own, as Triton reads `TRITON_INTERPRET` when it is first imported. Prints, as JSON, for each
scene whether its answers are the bytes of the request alone, computed at once.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from unittest import mock

from bench.gpu.simulated import simulated_gpu, small_start
from spectrie.model import Runner, load_runner
from spectrie.model.drafters import Answers, LevelPlan
from spectrie.model.plan import StepPlan
from spectrie.model.runner import self_check
from spectrie.model.runner.drafting import DraftCosts, Drafting
from spectrie_kernels.device import tree_attention
from spectrie_kernels.device.tree_attention import combine_form
from tests.model.decoder.interpreted import ascending, by_company
from tests.model.drafters.session import Request, draft_path, feed, same
from tests.model.launch.drafts.followed import Followed, drafts_of, levels_behind

TEXT = [7, 3, 9, 1, 5, 2, 8, 6, 4, 11, 13, 12, 17, 19, 18, 15, 16, 22]
GUESSES = [5, 77]
SCORED = [5, 9]


def main() -> None:
    """Plays the scenes."""
    from triton.runtime.interpreter import InterpreterBuilder

    importlib.import_module("kernels.tests.quick_interpreter").hasten(finds_overflow=False)
    model, head, order, *scenes = sys.argv[1:]
    InterpreterBuilder.create_dot = {"ascending": ascending, "by_company": by_company}[order]
    # Whether the model's rows are exact is another test's question.
    unchecked = mock.patch.object(self_check, "differing_form", lambda *given, **options: None)
    costs = DraftCosts([1], [1.0], [1.0], 0.0)
    unmeasured = mock.patch.object(Drafting, "measure", lambda *given: costs)
    # A context of two units has no splits, of which the combine looks for 32 in each head of each row.
    short = mock.patch.object(
        tree_attention, "combine_form", lambda width, _: combine_form(width, 1)
    )
    with simulated_gpu(interpreted=True), small_start((1, 4)), unchecked, unmeasured, short:
        runner = load_runner(
            model,
            dtype="float32",
            threads=1,
            num_pages=24,
            max_context=96,
            max_batch_rows=24,
            gpu_arithmetic="exact",
            drafter=head,
        )
        if scenes == ["behind"]:
            elsewhere = load_runner(model, dtype="float32", device="cpu", num_pages=24)
            found = {"behind": behind(runner, elsewhere)}
        else:
            expected = alone(runner, len(TEXT))
            found = {scene: same(SCENES[scene](runner), expected) for scene in scenes}
    print(json.dumps(found))


def alone(runner: Runner, size: int) -> list[Answers]:
    """Answers behind the text, computed in chunks."""
    request = Request(runner, [1, 3])
    feed(request, TEXT, size)
    return draft_path(request, GUESSES, SCORED)


def in_company(runner: Runner) -> list[Answers]:
    """The same beside a request that was computed with it."""
    requests = [Request(runner, [4], seat=1), Request(runner, [1, 3])]
    texts = [TEXT[:3], TEXT]
    both = zip(requests, texts, strict=True)
    runner.step(StepPlan.joined([request.chunk(text) for request, text in both]))
    requests[0].commit(0, 3)
    requests[1].commit(3, len(TEXT))
    asked = [request.asked() for request in requests]
    end = len(TEXT)
    levels = (
        LevelPlan.of(
            asked,
            [(9, 3, 0, -1), (GUESSES[0], end, 1, -1)],
            moves=[*requests[0].moves, *requests[1].moves],
            scored=[[], SCORED],
        ),
        LevelPlan.of(
            asked,
            [(8, 4, 0, 0), (GUESSES[1], end + 1, 1, 1), (6, end + 1, 1, 1)],
            level=2,
            row_index=2,
            scored=[[], SCORED, [4]],
        ),
    )
    found = [runner.draft(level) for level in levels]
    return [
        Answers(one.ids[1:2], one.probabilities[1:2], one.scored[: len(SCORED)]) for one in found
    ]


def behind(runner: Runner, elsewhere: Runner) -> bool:
    """Whether levels have the bytes of those that are asked where the first was computed behind a step, and the
    second behind that or once the first was asked. What is said `elsewhere` is soon computed."""
    requests = [
        Followed.of(runner, (TEXT * 4)[:length], right, range(first, first + 6), number, elsewhere)
        for number, (length, right, first) in enumerate([(62, 1, 0), (3, 2, 6), (7, 0, 12)])
    ]
    found = []
    scored = [SCORED, [], [4]]
    for is_asked_before, scored_before in ((False, None), (True, None), (True, scored)):
        drafts = drafts_of(runner)
        before = drafts.num_ahead, drafts.num_beams
        found.append(
            levels_behind(
                runner,
                requests,
                [2, 0, 1],
                is_asked_before=is_asked_before,
                scored=scored,
                of_beams=True,
                scored_before=scored_before,
            )
        )
        used = drafts.num_ahead - before[0], drafts.num_beams - before[1]
        # Levels before the step were computed behind that of prompts; its second one has two rows more.
        ahead = 2 * len(requests), 2 * len(requests) + 2
        assert used == (ahead if is_asked_before else (0, 0))
        for one in requests:
            one.rewind()
    return all(same(found[0], one) for one in found[1:])


SCENES: dict[str, Callable[[Runner], list[Answers]]] = {
    "chunks": lambda runner: alone(runner, 7),
    "recorded steps": lambda runner: alone(runner, 3),
    "company": in_company,
}

if __name__ == "__main__":
    main()
