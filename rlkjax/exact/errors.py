"""What `exact` refuses, and why. Each message names the primitive or dtype and the user's line."""

from rlkjax.errors import InputError


class ExactError(InputError):
    """Base of every refusal of the exact transformation."""


class UnsupportedPrimitiveError(ExactError):
    """The program uses a primitive that has no rule, so its bits have no definition."""


class UnsupportedDtypeError(ExactError):
    """The program holds a dtype whose arithmetic is not defined here."""


class UnsupportedArgumentError(ExactError):
    """An argument or a result of the function is no array."""


class UnsupportedDerivativeError(ExactError):
    """An exact function is differentiated; exact is applied after the derivative is taken."""


class UnsupportedSettingError(ExactError):
    """A setting of the process takes the definitions away."""


class UnsupportedControlFlowError(ExactError):
    """Python needs the value of an array, so that no program of the function exists."""
