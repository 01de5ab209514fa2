"""The compiled core: engine, text, router and CPU operators. One section per room."""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from os import PathLike
from typing import Any, Literal, Self, final

import numpy as np
from numpy.typing import NDArray

__version__: str
