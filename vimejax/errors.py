"""The exceptions of the world. Each message says: which argument, got, want, next move."""


class VimeError(Exception):
    """Base of every error that vimejax raises on purpose."""


class SpecError(VimeError):
    """An environment or an array does not have the declared shape, dtype or range."""


class UnknownTaskError(VimeError):
    """No task of that name; the message lists the known ones."""


class EngineError(VimeError):
    """A physics engine is missing, or cannot run the task as asked."""


class CodecError(VimeError):
    """Bytes that are no canonical encoding, or a value that has none."""


class PurityError(VimeError):
    """An environment used a clock, a draw that no key decides, or a 64-bit float."""
