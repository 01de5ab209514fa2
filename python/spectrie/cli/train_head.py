"""`spectrie train-head`: trains a small head that drafts for a model."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from spectrie.cli.console.terminal import print_progress
from spectrie.cli.flags import values
from spectrie.cli.flags.arguments import add_value, read_value
from spectrie.errors import ConfigError

__all__ = ["configure", "run"]

_EPILOG = """\
The head learns to guess what MODEL answers. Without --data it learns from MODEL's answers to built-in prompts.
A .jsonl FILE has one object per line:
  {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}
  {"prompt": "...", "answer": "..."}      or token ids: {"prompt_ids": [1], "output_ids": [2]}
Chats and prompts without an answer need --self-generate. Any other FILE is text, such as source code;
with --self-generate, MODEL is also asked about each function of a .py FILE.
Killed at any moment, the same command continues. A head is derived from its text: --namespace says whose.

examples:
  spectrie train-head smollm2-135m --output head --self-generate
  spectrie train-head ./model --output head --data chats.jsonl --data src/app.py --namespace acme
  spectrie train-head ./model --output block --kind dflash --levels 7 --data chats.jsonl
"""
_DEFAULT_PROMPTS = 3000
_NAME = re.compile(r"[!-~]{1,128}")

_KIND = values.choice("eagle3", "eagle2", "mtp", "peagle", "dflash", "dflash2")
_COUNT = values.integer(0, 100_000)
_LEVELS = values.integer(1, 7)
_EPOCHS = values.integer(1, 100)
_TOKENS = values.integer(16, 8192, unit="tokens")
_RANK = values.integer(1, 8192)
_THREADS = values.integer(1, 1024)
_RATE = values.number(0, 1)


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("model", metavar="MODEL", help="model that the head drafts for")
    parser.add_argument(
        "--output", metavar="FOLDER", type=Path, required=True, help="the head's folder [required]"
    )
    add_value(parser, "kind", _KIND, "eagle3", "kind of head")
    parser.add_argument(
        "--data",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="chats, prompts or text to learn from; repeat for several [built-in prompts]",
    )
    parser.add_argument(
        "--self-generate", action="store_true", help="let the model answer prompts first"
    )
    add_value(
        parser,
        "prompts",
        _COUNT,
        f"{_DEFAULT_PROMPTS}, with --data 0",
        "built-in prompts to answer",
    )
    parser.add_argument(
        "--unseen",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="text or trace that must not be trained on, such as a test's; repeat for several [none]",
    )
    parser.add_argument(
        "--namespace", metavar="NAME", help="namespace whose text the data is [none]"
    )
    parser.add_argument(
        "--license", metavar="TEXT", default="unknown", help="licence of the data [unknown]"
    )
    parser.add_argument("--commit", metavar="ID", help="commit of this code, to be noted [none]")
    parser.add_argument(
        "--work",
        metavar="FOLDER",
        type=Path,
        help="answers, features and checkpoints, to continue from [OUTPUT.work]",
    )
    add_value(
        parser, "levels", _LEVELS, 3, "levels of a draft to train, or masks of a DFLASH block"
    )
    add_value(parser, "epochs", _EPOCHS, 4, "maximum passes over the data")
    add_value(parser, "learning_rate", _RATE, 0.001, "highest learning rate")
    add_value(
        parser, "vocabulary", _COUNT, 8192, "tokens that the head can name; a DFLASH head names all"
    )
    add_value(
        parser,
        "head_rank",
        _RANK,
        "none",
        "rank of factors that find 64 tokens among all, for the model's head to weigh; in place of --vocabulary",
    )
    add_value(parser, "answer_tokens", _TOKENS, 144, "longest answer")
    add_value(parser, "sample_tokens", _TOKENS, 512, "longest prompt with its answer")
    add_value(parser, "disk", values.size, "4GiB", "maximum size of the features on disk")
    add_value(parser, "threads", _THREADS, "the model's", "CPU threads")


def run(args: argparse.Namespace) -> int:
    """Trains; progress goes to stderr, the head's folder to stdout."""
    from spectrie.model import machine

    machine.require_torch("training a head")
    from spectrie.training.recipe import Recipe
    from spectrie.training.settings import TrainSettings
    from spectrie.training.training import train_head

    prompts = read_value(args, "prompts", _COUNT.parse, 0 if args.data else _DEFAULT_PROMPTS)
    if not args.data and not args.self_generate:
        raise ConfigError("nothing to learn from: give --data FILE, or --self-generate")
    if args.namespace is not None and not _NAME.fullmatch(args.namespace):
        raise ConfigError(
            f"--namespace is {args.namespace!r}; expected 1 to 128 printable ASCII characters without blanks, "
            "as requests name it"
        )
    if args.head_rank is not None and args.vocabulary is not None:
        raise ConfigError(
            "--head-rank and --vocabulary exclude each other: give a rank to name all tokens, or a number of them"
        )
    defaults = TrainSettings()
    settings = TrainSettings(
        levels=read_value(args, "levels", _LEVELS.parse, defaults.levels),
        epochs=read_value(args, "epochs", _EPOCHS.parse, defaults.epochs),
        learning_rate=read_value(args, "learning_rate", _RATE.parse, defaults.learning_rate),
        bfloat16=bool(machine.bf16_flags()),
    )
    work = args.work or args.output.with_name(args.output.name + ".work")
    recipe = Recipe(
        args.model,
        args.output,
        work,
        kind=read_value(args, "kind", _KIND.parse, "eagle3"),
        data=tuple(args.data),
        prompts=prompts,
        answers=args.self_generate,
        unseen=tuple(args.unseen),
        namespace=args.namespace,
        licence=args.license,
        commit=args.commit,
        answer_tokens=read_value(args, "answer_tokens", _TOKENS.parse, 144),
        sample_tokens=read_value(args, "sample_tokens", _TOKENS.parse, 512),
        vocabulary=read_value(args, "vocabulary", _COUNT.parse, 8192),
        head_rank=read_value(args, "head_rank", _RANK.parse, None),
        disk_bytes=read_value(args, "disk", values.size.parse, 4 << 30),
        threads=read_value(args, "threads", _THREADS.parse, None),
        settings=settings,
    )
    head = train_head(recipe, print_progress)
    print(head.folder)
    return 0
