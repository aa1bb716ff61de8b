"""The exceptions of the learner, each with the exit status that a command returns for it."""


class RlkError(Exception):
    """Base of every error raised here on purpose; `exit_status` is what a command returns."""

    exit_status = 2


class ConsistencyError(RlkError):
    """Bytes that should be equal are not, or a record is damaged."""

    exit_status = 1


class InputError(RlkError):
    """Wrong use: a config, an option, a folder or a file that cannot be used as asked."""

    exit_status = 2


class MachineError(RlkError):
    """The machine cannot do what was asked: no such platform, a flag out of force, no space."""

    exit_status = 3
