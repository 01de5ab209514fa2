"""The target's own answers to prompts, as training samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from spectrie.printing.progress import Progress
from spectrie.training.texts.prompts import Chat
from spectrie.training.texts.samples import Sample, SampleFile
from spectrie.types import Message

if TYPE_CHECKING:
    from spectrie.llm import LLM
    from spectrie.options import GenerateOptions

__all__ = ["SELF_GENERATED", "generate_answers"]

SELF_GENERATED = "self-generated"
"""Origin of samples that the target wrote."""

_GROUP = 128
_TEMPERATURES = (0.0, 0.8, 0.0, 0.9, 0.0, 1.0)
"""Half the answers are greedy: that is how many requests are served, and the likeliest text is what a
head should know best."""


def generate_answers(
    llm: LLM, chats: Sequence[Chat], file: SampleFile, *, max_tokens: int, max_context: int
) -> None:
    """Answers the chats that the file does not hold yet, in groups, many requests at once.

    Each answer is a sample: the chat before it is context. Chats too long for `max_context` are left out.

    Args:
        llm: The target.
        chats: What to answer; the same in every call for one file.
        file: Receives a group of samples after each 128 chats.
        max_tokens: Longest answer.
        max_context: Longest chat with its answer, in tokens.
    """
    total = -(-len(chats) // _GROUP)
    with Progress("answers", total) as progress:
        num_tokens = 0
        for index in range(file.num_groups, total):
            first = index * _GROUP
            group = list(enumerate(chats[first : first + _GROUP], first))
            samples: list[Sample] = []
            while group:
                answered = _answer(llm, group, max_tokens, max_context)
                samples += [sample for _, _, sample in answered]
                group = [
                    (number, _continued(llm, chat, sample))
                    for number, chat, sample in answered
                    if chat.follow_ups
                ]
            file.append(samples)
            num_tokens += sum(sample.num_answer_tokens for sample in samples)
            rate = num_tokens / max(progress.elapsed_s, 1e-3)
            progress.show(index + 1, f"{num_tokens:,} tokens, {rate:.0f} a second")


def _answer(
    llm: LLM, group: Sequence[tuple[int, Chat]], max_tokens: int, max_context: int
) -> list[tuple[int, Chat, Sample]]:
    streams = []
    for number, chat in group:
        ids = list(llm.tokenizer.encode(llm.tokenizer.apply_chat_template(list(chat.messages))))
        if len(ids) >= max_context:
            continue
        options: GenerateOptions = {
            "max_tokens": min(max_tokens, max_context - len(ids)),
            "temperature": _TEMPERATURES[number % len(_TEMPERATURES)],
            "seed": number,
        }
        streams.append((number, chat, ids, llm.stream(prompt_token_ids=ids, **options)))
    answers = []
    for number, chat, ids, stream in streams:
        output = list(stream.final().token_ids)
        span = (len(ids), len(ids) + len(output))
        answers.append((number, chat, Sample(ids + output, [span], SELF_GENERATED)))
    return answers


def _continued(llm: LLM, chat: Chat, sample: Sample) -> Chat:
    """The chat after its answer and the next follow-up."""
    ((start, end),) = sample.answers
    text = llm.tokenizer.decode(sample.token_ids[start:end])
    said: list[Message] = [
        {"role": "assistant", "content": text},
        {"role": "user", "content": chat.follow_ups[0]},
    ]
    return replace(chat, messages=(*chat.messages, *said), follow_ups=chat.follow_ups[1:])
