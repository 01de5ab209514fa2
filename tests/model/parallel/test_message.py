"""Plans arrive at the other ranks as they were sent."""

from __future__ import annotations

import numpy as np

from spectrie.model.parallel.message import Command, Message, header_length
from spectrie.model.plan import PlanArrays, StepPlan


def sent(message: Message, max_rows: int = 32) -> Message:
    header, body = message.header(max_rows), message.body()
    assert header.shape == (header_length(max_rows),)
    assert Message.body_length(header) == len(body)
    return Message.read(header, body)


def test_a_plan_arrives_with_every_field_and_type() -> None:
    tree = StepPlan.single(
        [5, 6, 7],
        kv_len=20,
        pages=[3, 1],
        parents=[-1, 0, 0],
        sample_rows=[0, 2],
        top_rows=[0, 1, 2],
        moves=[(3, 4), (5, 6)],
    )
    chunk = StepPlan.single([1, 2], kv_len=0, pages=[9])
    plan = StepPlan.joined([tree, chunk])
    received = sent(Message(Command.STEP, plan=plan))
    assert received.command is Command.STEP
    # What else a plan has is a drafter's, which no other rank runs.
    names = [name for name, value in vars(PlanArrays).items() if isinstance(value, property)]
    assert len(names) == 15
    for name in names:
        there = getattr(received.plan, name)
        assert there.dtype == getattr(plan, name).dtype
        np.testing.assert_array_equal(there, getattr(plan, name), err_msg=name)


def test_a_full_and_an_empty_plan_fit() -> None:
    full = StepPlan.single(list(range(32)), kv_len=0, pages=[0, 1], parents=[-1] + [0] * 31)
    received = sent(Message(Command.STEP, plan=full)).plan
    assert received is not None
    np.testing.assert_array_equal(received.row_ancestors, full.row_ancestors)
    empty = StepPlan.single([], kv_len=0, pages=[])
    assert len(sent(Message(Command.STEP, plan=empty)).plan.row_token) == 0  # type: ignore[union-attr]


def test_other_orders_carry_their_number_alone() -> None:
    assert sent(Message(Command.SET_THREADS, 3)) == Message(Command.SET_THREADS, 3)
    assert sent(Message(Command.STOP)) == Message(Command.STOP)
