"""All rules: name of primitive -> rule."""

from rlkjax.exact.interpret import Table
from rlkjax.exact.rules import (
    accumulate,
    arithmetic,
    control,
    devices,
    elementary,
    folds,
    indexing,
    linear,
    scatters,
    windows,
)

TABLE: Table = (
    arithmetic.rules()
    | elementary.rules()
    | accumulate.rules()
    | folds.rules()
    | windows.rules()
    | scatters.rules()
    | indexing.rules()
    | control.rules()
    | devices.rules()
    | linear.rules()
)
