"""`python -m rlkjax.prove RUN`: heads of a ledger, signed or not, and proofs against them."""

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rlkjax import cli
from rlkjax.atomic import explain, write_file
from rlkjax.audit import head as heads
from rlkjax.audit import leaf_files, proof_files, sign
from rlkjax.audit import note as notes
from rlkjax.audit.checks import LEDGER
from rlkjax.audit.inside import lines_inside
from rlkjax.audit.note import Note
from rlkjax.errors import ConsistencyError, InputError


def parser() -> argparse.ArgumentParser:
    """The command line of `prove`."""
    made = argparse.ArgumentParser(
        prog="python -m rlkjax.prove",
        description="Write the head of a run's ledger, sign it, or prove to someone who holds a "
        "head that a record, or the bytes of a buffer, are in the ledger.",
        epilog="A proof or a head goes to stdout, or to --out. Check it with rlkjax verify. Exit "
        "status: 0 good; 1 the run is damaged; 2 wrong use; 3 the extra `sign` is not installed.",
        allow_abbrev=False,
    )
    made.add_argument("run", metavar="RUN", type=Path, nargs="?", help="the run folder")
    what = made.add_mutually_exclusive_group(required=True)
    what.add_argument("--head", action="store_true", help="the head of the ledger")
    what.add_argument("--record", metavar="I", type=int, help="that record I is in the ledger")
    what.add_argument(
        "--leaf",
        metavar="FIELD,T",
        help="which bytes a buffer had at step T of the rollout of --iteration",
    )
    what.add_argument(
        "--consistency",
        metavar="SIZE",
        type=int,
        help="that the ledger only grew since it had SIZE records",
    )
    what.add_argument(
        "--new-key",
        metavar="NAME",
        help="make a pair of keys: the secret one in --out, the public one in --out with .pub",
    )
    made.add_argument("--iteration", metavar="N", type=int, help="of the rollout, for --leaf")
    made.add_argument("--size", metavar="N", type=int, help="for --head: when it had N records")
    made.add_argument(
        "--sign-with", metavar="KEY", type=Path, help="for --head: file of a secret key"
    )
    made.add_argument(
        "--cosign",
        metavar="HEAD",
        type=Path,
        help="for --head: a signed head of this ledger, whose signatures are kept",
    )
    made.add_argument("--out", metavar="FILE", type=Path, help="write there instead of stdout")
    return made


def main(arguments: Sequence[str]) -> int:
    """Runs the command, see `cli.run`. Exit status 0."""
    options = parser().parse_args(arguments)
    _check_options(options)
    if options.new_key is not None:
        _new_key(options.new_key, options.out)
        return 0
    data = _head(options) if options.head else proof_files.as_bytes(_proof(options))
    if options.out is None:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    else:
        write_file(options.out, data)
    return 0


def _check_options(options: argparse.Namespace) -> None:
    """That no option is given which the chosen kind of output does not take."""
    wrong = [
        ("--iteration", options.iteration, options.leaf is not None, "--leaf"),
        ("--size", options.size, options.head, "--head"),
        ("--sign-with", options.sign_with, options.head, "--head"),
        ("--cosign", options.cosign, options.head, "--head"),
        ("RUN", options.run, options.new_key is None, "a head or a proof"),
    ]
    for name, value, fits, wanted in wrong:
        if value is not None and not fits:
            raise InputError(f"{name}: got {value}, want it only with {wanted}; leave it out")
    if options.new_key is not None and options.out is None:
        raise InputError("--out: got nothing, want the file of the new secret key; name one")
    if options.new_key is None and options.run is None:
        raise InputError("RUN: got nothing, want a run folder; name the one that training printed")
    if options.leaf is not None and options.iteration is None:
        raise InputError("--iteration: got nothing, want the iteration of the rollout; give one")


def _head(options: argparse.Namespace) -> bytes:
    text = heads.write(heads.head_of(_lines(options.run), options.size))
    note = Note(text, ())
    if options.cosign is not None:
        note = notes.parse(_read(options.cosign), str(options.cosign))
        if note.text != text:
            raise ConsistencyError(
                f"{options.cosign}: got a head that is not the one of {options.run}, want equal "
                f"heads; got {note.text!r}, this ledger has {text!r}"
            )
    if options.sign_with is not None:
        text = _read(options.sign_with).decode("ascii", "replace")
        key = notes.parse_key(text, str(options.sign_with), secret=True)
        note = sign.sign(note, key)
    return notes.write(note)


def _proof(options: argparse.Namespace) -> dict[str, Any]:
    lines = list(_lines(options.run))
    if options.record is not None:
        return proof_files.record_proof(lines, options.record)
    if options.consistency is not None:
        return proof_files.consistency_proof(lines, options.consistency)
    field, comma, step = options.leaf.rpartition(",")
    if not comma or not step.isdecimal() or len(step) > 9:
        raise InputError(f"--leaf: got {options.leaf!r}, want FIELD,T; for example obs,0")
    leaf = partial(leaf_files.proof_of_leaf, options.run.resolve(), lines)
    return leaf(options.iteration, field=field, step=int(step))


def _lines(run: Path) -> list[bytes]:
    """Lines of a ledger without their ends."""
    if not (run / LEDGER).is_file():
        raise InputError(
            f"run folder: got {run}, want a folder that holds {LEDGER}; "
            "name the folder that training printed"
        )
    lines = list(lines_inside(run.resolve(), LEDGER))
    if lines and not lines[-1].endswith(b"\n"):
        raise ConsistencyError(
            f"{run / LEDGER}: got a last line without a line feed, want whole lines; "
            "resume the run or restore the file"
        )
    return [line[:-1] for line in lines]


def _new_key(name: str, out: Path) -> None:
    secret, public = sign.new_key(name)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with open(os.open(out, flags, 0o600), "w", encoding="ascii") as file:
            file.write(secret + "\n")
    except FileExistsError as error:
        raise InputError(
            f"--out: {out} exists, and a secret key is never overwritten; name another file"
        ) from error
    except OSError as error:
        raise explain(error, out) from error
    write_file(out.with_name(out.name + ".pub"), f"{public}\n".encode())
    print(public)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise explain(error, path) from error


if __name__ == "__main__":
    sys.exit(cli.run(main))
