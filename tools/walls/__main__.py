"""Prints what breaks the walls: `python -m tools.walls [CHECKOUT]`."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.walls import tree
from tools.walls.detours import detours
from tools.walls.orders import CIRCLES


def main(root: Path) -> int:
    """One line for each arrow, circle, file and folder that breaks a rule; 1 if there is any."""
    arrows = tree.arrows_below(root)
    found = [
        *tree.wrong_arrows(root, arrows),
        *tree.unlisted_rooms(root, arrows),
        *tree.without_order(root, arrows),
        *detours(root, arrows),
        *(
            f"circle: {' '.join(one)}"
            for one in tree.all_circles(root, arrows)
            if one not in CIRCLES
        ),
        *tree.too_long(root),
        *tree.crowded(root),
    ]
    print("\n".join(found) or "every wall stands")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
