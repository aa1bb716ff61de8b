"""All rules: name of primitive -> rule."""

from rlkjax.exact.interpret import Table
from rlkjax.exact.rules import accumulate, arithmetic, control, elementary, indexing, linear

TABLE: Table = (
    arithmetic.rules()
    | elementary.rules()
    | accumulate.rules()
    | indexing.rules()
    | control.rules()
    | linear.rules()
)
