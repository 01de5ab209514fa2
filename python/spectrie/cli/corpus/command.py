"""`spectrie corpus`: build, list or remove the corpora that drafts can draw on."""

from __future__ import annotations

import argparse
import fnmatch
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spectrie.cli.console.terminal import print_progress
from spectrie.cli.corpus.documents import DocumentReader
from spectrie.cli.corpus.vocabulary import Vocabulary, load_vocabulary, stored_models
from spectrie.cli.flags import values
from spectrie.cli.flags.arguments import add_value, read_value
from spectrie.cli.flags.parser import add_command
from spectrie.cli.operators.server import add_server, operate, rows
from spectrie.errors import ConfigError
from spectrie.model.files.corpora import CORPUS_SUFFIX, built_corpora, corpora_folder, corpus_file
from spectrie.printing.progress import Progress

if TYPE_CHECKING:
    from spectrie.client import CorpusReport

__all__ = ["configure", "run"]

_BUILD_EPILOG = """\
FILES are text (one document each), .jsonl lines (also .gz, .xz) of {"text": "..."}, {"ids": [...]}
or {"prompt": "...", "output": "..."}, .u32 files of little-endian token ids with 4294967295 between
documents, and folders of these. Drafts never cross the end of a document.

examples:
  spectrie corpus build ~/src/app --include '*.py' --include '*.md' -o app
  spectrie corpus build answers.jsonl -o answers --model smollm2-135m
  spectrie replay --input requests.jsonl --corpus app
"""
_SPLIT = values.choice("whole", "blank-line")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the actions and their arguments to `parser`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    building = add_command(actions, "build", "build a corpus of text, JSON lines or token ids")
    building.epilog = _BUILD_EPILOG
    building.add_argument("files", metavar="FILES", nargs="+", help="files and folders to read")
    building.add_argument(
        "-o",
        dest="output",
        metavar="NAME",
        required=True,
        help="name of the corpus, or a .corpus path",
    )
    building.add_argument(
        "--model", metavar="MODEL", help="model whose tokenizer to use [the stored one]"
    )
    building.add_argument(
        "--include",
        metavar="GLOB",
        action="append",
        help="pattern of files to take from folders; repeat for more [all text files]",
    )
    add_value(building, "split", _SPLIT, "whole", "documents of a text file")
    building.add_argument(
        "--force", action="store_true", help="replace an existing corpus of that name"
    )
    listing = add_command(actions, "list", "list built corpora, or those that a server drafts from")
    add_server(listing)
    removing = add_command(actions, "rm", "remove a built corpus")
    removing.add_argument("name", metavar="NAME")
    adding = add_command(actions, "add", "add a built corpus to a running server")
    adding.add_argument(
        "corpus", metavar="NAME", help="name or path of the corpus on the workers' machine"
    )
    adding.add_argument(
        "--namespace",
        metavar="NAMESPACE",
        action="append",
        help="namespace that may draft from it; repeat for several [all]",
    )
    add_server(adding)
    taking = add_command(actions, "remove", "remove a corpus from a running server")
    taking.add_argument("corpus", metavar="NAME", help="name as in `corpus list --server`")
    add_server(taking)


def run(args: argparse.Namespace) -> int:
    """Runs the chosen action; results go to stdout, progress to stderr."""
    actions = {
        "build": _build,
        "list": _list,
        "rm": _remove,
        "add": _add_to_server,
        "remove": _remove_from_server,
    }
    return actions[args.action](args)


def _build(args: argparse.Namespace) -> int:
    from spectrie._core import CorpusBuilder

    split = read_value(args, "split", _SPLIT.parse, "whole")
    target = _target(args.output)
    if target.exists() and not args.force:
        raise ConfigError(f"{target} exists: choose another name, or replace it with --force")
    files = list(_files(args.files, args.include))
    vocabulary = load_vocabulary(args.model, print_progress)
    try:
        name = target.name.removesuffix(CORPUS_SUFFIX)
        builder = CorpusBuilder(name, vocabulary.fingerprint, scratch=target.parent)
    except ValueError as error:
        raise ConfigError(f"-o {args.output}: {error}") from None
    reader = DocumentReader(builder, lambda: vocabulary, split)
    with Progress(target.stem, sum(path.stat().st_size for path, _ in files)) as progress:
        _read(reader, files, progress)
        _check_ids(reader, vocabulary)
        if builder.num_tokens < 2:
            raise ConfigError("the files hold no document of two tokens: there is nothing to build")
        seconds = progress.elapsed_s
    print_progress(f"indexing {builder.num_tokens:,} tokens")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with Progress(target.stem, 100) as progress:
            corpus = builder.finish(
                target, lambda done, total: progress.show(100 * done // total, "indexed")
            )
            seconds += progress.elapsed_s
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot store the corpus: {error}") from error
    skipped = f"; skipped {reader.num_skipped:,} binary files"
    print_progress(
        f"{corpus.name}: {corpus.num_documents:,} documents, {corpus.num_tokens:,} tokens, "
        f"{corpus.bytes / 1e6:,.1f} MB, {corpus.bytes / corpus.num_tokens:.1f} bytes/token, "
        f"{corpus.num_tokens / seconds:,.0f} tokens/s{skipped if reader.num_skipped else ''}"
    )
    print(target)
    return 0


def _read(reader: DocumentReader, files: list[tuple[Path, bool]], progress: Progress) -> None:
    done = 0
    for path, named in files:
        for num_bytes in reader.read(path, named=named):
            done += num_bytes
            rate = reader.num_tokens / max(progress.elapsed_s, 1e-9)
            note = (
                f"{reader.num_documents:,} documents, {reader.num_tokens:,} tokens, {rate:,.0f}/s"
            )
            progress.show(done, note)
    reader.flush()


def _check_ids(reader: DocumentReader, vocabulary: Vocabulary) -> None:
    size = vocabulary.tokenizer.vocabulary_size
    if reader.largest_id >= size:
        raise ConfigError(
            f"token id {reader.largest_id} is none of {vocabulary.name}, whose tokenizer has "
            f"{size:,}: give --model with the model that these ids are of"
        )


def _target(output: str) -> Path:
    """The file to write: in the corpora's folder for a name, elsewhere for a path."""
    if os.sep in output or output.endswith(CORPUS_SUFFIX):
        path = Path(output).expanduser().absolute()
        return path if path.suffix == CORPUS_SUFFIX else path.with_name(path.name + CORPUS_SUFFIX)
    return corpus_file(output)


def _files(given: list[str], include: list[str] | None) -> Iterator[tuple[Path, bool]]:
    """Every file to read, and whether the user named it."""
    for name in given:
        path = Path(name).expanduser()
        if path.is_dir():
            yield from ((file, False) for file in _walk(path, include))
        elif path.is_file():
            yield path, True
        else:
            raise ConfigError(f"no file or folder {name}")


def _walk(folder: Path, include: list[str] | None) -> Iterator[Path]:
    """The files of a folder in a fixed order, hidden ones and corpora left out."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(parent, name)
            hidden = name.startswith(".") or name.endswith(CORPUS_SUFFIX)
            wanted = include is None or any(fnmatch.fnmatch(name, glob) for glob in include)
            if wanted and not hidden and path.is_file():
                yield path


def _list(args: argparse.Namespace) -> int:
    if args.server:
        return operate(args, lambda client: client.list_corpora(), _show_loaded)
    from spectrie._core import corpus_info, tokenizer_fingerprint

    models = {tokenizer_fingerprint(folder): name for name, folder in stored_models().items()}
    for path in built_corpora():
        try:
            corpus = corpus_info(path)
        except ValueError as error:
            print(f"{path.stem:24} cannot be used: {error}")
            continue
        model = models.get(corpus.fingerprint, f"tokenizer {corpus.fingerprint}")
        print(
            f"{path.stem:24} {corpus.num_documents:>9,} documents {corpus.num_tokens:>13,} tokens"
            f" {corpus.bytes / 1e6:>9,.1f} MB  {model}"
        )
    print_progress(f"built in {corpora_folder()}")
    return 0


def _remove(args: argparse.Namespace) -> int:
    path = corpus_file(args.name.removesuffix(CORPUS_SUFFIX))
    try:
        path.unlink()
    except FileNotFoundError:
        raise ConfigError(
            f"no corpus {args.name!r} in {corpora_folder()}; see: spectrie corpus list"
        ) from None
    except OSError as error:
        raise ConfigError(f"cannot remove {path}: {error.strerror}") from error
    print_progress(f"removed {path.stem}")
    return 0


def _add_to_server(args: argparse.Namespace) -> int:
    path = Path(args.corpus).expanduser()
    # A relative path would be of the folder that the server was started in.
    corpus = str(path.absolute()) if path.is_file() else args.corpus
    return operate(
        args,
        lambda client: client.add_corpus(corpus, readers=args.namespace),
        lambda added: _show_loaded([added]),
    )


def _remove_from_server(args: argparse.Namespace) -> int:
    return operate(
        args,
        lambda client: client.remove_corpus(args.corpus),
        lambda workers: print_progress(f"{args.corpus}: {_removed_from(workers)}"),
    )


def _removed_from(workers: int) -> str:
    if workers == 0:
        return "no worker had it; it will not be added again at the next start"
    return f"removed from {workers} of the workers"


def _show_loaded(corpora: Sequence[CorpusReport]) -> None:
    table = [
        (
            one.name,
            f"{one.num_documents:,} documents",
            f"{one.num_tokens:,} tokens",
            f"{one.bytes / 1e6:,.1f} MB",
            f"{one.accepted_tokens:,} accepted",
            "for everyone" if one.readers is None else f"for {', '.join(one.readers)}",
            f"{one.lost_blocks:,} blocks lost: {one.first_loss}" if one.lost_blocks else "",
        )
        for one in corpora
    ]
    rows(table, "no corpus is loaded")
