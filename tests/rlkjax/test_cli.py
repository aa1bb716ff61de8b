"""Errors raised on purpose become one line on stderr and their exit status."""

import errno
from collections.abc import Sequence

import pytest

from rlkjax import cli
from rlkjax.errors import ConsistencyError, InputError, MachineError, RlkError
from vimejax.errors import UnknownTaskError


def raising(error: BaseException) -> cli.Main:
    def main(arguments: Sequence[str]) -> int:
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConsistencyError("bytes differ"), 1),
        (InputError("no such key"), 2),
        (RlkError("wrong use"), 2),
        (UnknownTaskError("no such task"), 2),
        (MachineError("no such device"), 3),
        (OSError(errno.ENOSPC, "No space left on device"), 3),
        (KeyboardInterrupt(), 130),
    ],
)
def test_an_error_is_one_line_and_a_status(
    error: BaseException, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(raising(error), []) == status
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("rlkjax: ") and captured.err.count("\n") == 1


def test_a_command_that_is_broken_off_may_say_how_to_go_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cli.run(raising(KeyboardInterrupt()), [])
    cli.run(raising(KeyboardInterrupt("go on with --resume")), [])
    want = "rlkjax: broken off\nrlkjax: broken off; go on with --resume\n"
    assert capsys.readouterr().err == want


def test_a_slip_of_ours_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError, match="a slip"):
        cli.run(raising(ZeroDivisionError("a slip")), [])


def test_the_status_of_a_command_is_passed_on() -> None:
    assert cli.run(lambda arguments: len(arguments), ["a", "b"]) == 2


def test_an_unknown_verb_lists_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tarin"]) == 2
    err = capsys.readouterr().err
    assert "got 'tarin', want one of train, verify" in err and err.endswith(
        "; did you mean train?\n"
    )
    assert cli.main(["zzz"]) == 2
    assert capsys.readouterr().err.endswith("; see rlkjax --help\n")


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"\n  {verb}" in said for verb in cli.VERBS)
