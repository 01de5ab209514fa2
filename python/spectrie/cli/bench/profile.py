"""`spectrie bench --profile`: one step of a model on this machine's GPU, by kernel."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from spectrie.cli.flags import values
from spectrie.cli.flags.values import Kind
from spectrie.errors import ConfigError
from spectrie.model.machine import require_torch
from spectrie.printing.markdown import render_table

if TYPE_CHECKING:
    from spectrie.model.runner.step_profile import StepProfile

__all__ = ["configure", "run"]

_NUMBERS: tuple[tuple[str, Kind, str, str], ...] = (
    ("profile_requests", values.integer(1, 512), "1", "requests in the step"),
    ("profile_rows", values.integer(1, 64), "1", "rows of each: a token and its drafts"),
    ("profile_context", values.integer(0), "1024", "cached tokens of each"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument(
        "--profile", metavar="MODEL", help="print one step of this model by kernel [none]"
    )
    for name, kind, default, text in _NUMBERS:
        flag = "--" + name.replace("_", "-")
        parser.add_argument(
            flag, dest=name, metavar=kind.metavar, default=default, help=f"{text} [{default}]"
        )
    parser.add_argument(
        "--profile-arithmetic",
        choices=("auto", "exact", "fast"),
        default="auto",
        help="as --gpu-arithmetic of a server [auto]",
    )


def run(args: argparse.Namespace) -> int:
    """Prints the table.

    Raises:
        ConfigError: There is no GPU, or torch is not installed.
        ModelError: The model cannot be loaded.
    """
    numbers = {}
    for name, kind, _, _ in _NUMBERS:
        try:
            numbers[name.removeprefix("profile_")] = kind.parse(getattr(args, name))
        except ValueError as error:
            raise ConfigError(f"--{name.replace('_', '-')}: {error}") from None
    require_torch("--profile")
    from spectrie.model import gpu, load_runner, resolve

    if not gpu.is_available():
        raise ConfigError("--profile shows the kernels of a GPU, and torch sees none here")
    from spectrie.model.runner.step_profile import decoding_plan, profile_step

    folder = resolve(args.profile, None).folder
    runner = load_runner(folder, device="cuda", gpu_arithmetic=args.profile_arithmetic)
    plan = decoding_plan(runner, **numbers)
    if len(plan.row_token) > runner.info.max_batch_rows:
        raise ConfigError(
            f"--profile-requests times --profile-rows is {len(plan.row_token)}, a step has at most "
            f"{runner.info.max_batch_rows} rows"
        )
    profile = profile_step(runner, plan)
    what = f"{runner.device_name}, {'exact' if runner.exact else 'fast'}, {runner.dtype_name}"
    print(f"{what}: {len(plan.row_token)} rows, {int(plan.request_kv_len[0])} cached tokens each")
    print(_table(profile))
    if args.save_result:
        content = {"device": runner.device_name, **asdict(profile)}
        args.save_result.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


def _table(profile: StepProfile) -> str:
    total = profile.step_microseconds
    rows = [(one.name, one.launches, one.microseconds) for one in profile.kernels]
    device, gap = profile.device_microseconds, profile.gap_microseconds
    rows += [("all kernels", sum(one.launches for one in profile.kernels), device)]
    cells = [[name[:60], f"{n:g}", f"{us:.1f}", f"{100 * us / total:.1f}"] for name, n, us in rows]
    cells.append(["the host", "", f"{gap:.1f}", f"{100 * gap / total:.1f}"])
    cells.append(["step", "", f"{total:.1f}", "100.0"])
    return render_table(["kernel", "launches", "microseconds", "%"], cells)
