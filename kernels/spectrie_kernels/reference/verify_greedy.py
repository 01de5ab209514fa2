"""Walks along chosen tokens, and what is drafted behind them, in plain Python over torch tensors."""

from __future__ import annotations

import math

import torch

from spectrie_kernels.attention.roots import RootAnswers, RootPlaces, RootRows, RootSections

__all__ = ["draft_beams", "draft_roots", "verify_greedy"]

MAX_ROWS = 64


def verify_greedy(
    argmax: torch.Tensor,
    row_token: torch.Tensor,
    row_parent: torch.Tensor,
    request_row_start: torch.Tensor,
    request_row_count: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """See `spectrie_kernels.verify_greedy`."""
    requests = request_row_start.shape[0]
    counts = torch.zeros(requests, dtype=torch.int32)
    path_rows = torch.full((requests, MAX_ROWS), -1, dtype=torch.int32)
    emitted = torch.full((requests, MAX_ROWS), -1, dtype=torch.int32)
    choices, tokens, parents = argmax.tolist(), row_token.tolist(), row_parent.tolist()
    extents = zip(request_row_start.tolist(), request_row_count.tolist(), strict=True)
    for request, (start, count) in enumerate(extents):
        node: int | None = 0
        length = 0
        while node is not None:
            choice = choices[start + node]
            path_rows[request, length] = node
            emitted[request, length] = choice
            length += 1
            children = (
                row
                for row in range(node + 1, count)
                if parents[start + row] == node and tokens[start + row] == choice
            )
            node = next(children, None)
        counts[request] = length
    device = argmax.device
    return counts.to(device), path_rows.to(device), emitted.to(device)


def draft_roots(
    packed: torch.Tensor,
    sections: RootSections,
    walks: torch.Tensor,
    count: torch.Tensor,
    drawn: torch.Tensor,
    places: RootPlaces,
    rows: RootRows,
) -> None:
    """See `spectrie_kernels.draft_roots`."""

    def section(number: int) -> int:
        return int(packed[2 * number])

    _empty(rows, places)
    for index, walk in enumerate(walks[: int(count[0])].tolist()):
        first, num_rows, sample, base, page = walk
        tokens, parents = (
            packed[section(one) + first :][:num_rows].tolist()
            for one in (sections.tokens, sections.parents)
        )
        choices = drawn[sample : sample + num_rows].tolist()
        node, depth = 0, 1
        while True:
            below = range(node + 1, num_rows)
            children = (c for c in below if parents[c] == node and tokens[c] == choices[node])
            child = next(children, None)
            if child is None:
                break
            node, depth = child, depth + 1
        token, position = choices[node], base + depth
        if token < 0 or position >= places.max_context:
            continue
        rows.tokens[index] = token if token < places.embedded else -1
        rows.positions[index] = position
        rows.slots[index] = places.first_slot + index
        rows.origins[index] = places.first_feature + first + node
        rows.places[index] = places.first_state + index
        rows.pages[index] = section(sections.pages) + page
        rows.found[index, :3] = torch.tensor([token, position, first + node])


def draft_beams(
    roots: RootRows,
    answers: RootAnswers,
    count: torch.Tensor,
    places: RootPlaces,
    beams: RootRows,
    number: torch.Tensor,
) -> None:
    """See `spectrie_kernels.draft_beams`."""
    _empty(beams, places)
    each = beams.tokens.shape[0] // roots.tokens.shape[0]
    number.copy_(count * each)
    names = None if answers.names is None else answers.names.tolist()
    for root in range(int(count[0])):
        state, position = int(roots.places[root]), int(roots.positions[root]) + 1
        if state == places.dump or position >= places.max_context:
            continue
        pairs = zip(answers.weights[root].tolist(), answers.ids[root].tolist(), strict=True)
        # What is no number is not above minus infinity either.
        likeliest = sorted((-w, one) for w, one in pairs if one >= 0 and w > -math.inf)
        for beam, (_, one) in enumerate(likeliest[:each]):
            token = one if names is None else names[one]
            row = root * each + beam
            beams.tokens[row] = token if token < places.embedded else -1
            beams.positions[row] = position
            beams.slots[row] = places.first_slot + row
            beams.origins[row] = state
            beams.places[row] = places.first_state + row
            beams.pages[row] = roots.pages[root]
            beams.found[row, :3] = torch.tensor([token, position, root])


def _empty(rows: RootRows, places: RootPlaces) -> None:
    """Has all rows stand for none."""
    rows.tokens.fill_(-1)
    rows.positions.zero_()
    rows.slots.fill_(-1)
    rows.origins.fill_(-1)
    rows.places.fill_(places.dump)
    rows.pages.zero_()
    rows.found[:, :3] = -1
    rows.found[:, 3] = 0
