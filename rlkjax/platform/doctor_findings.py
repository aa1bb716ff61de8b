"""What the doctor says about one setting, in one line."""

from typing import NamedTuple

NOTHING = "nothing"
REFUSED = "the run is refused"


class Finding(NamedTuple):
    """One setting that can move bits, or stop a run.

    Attributes:
      name: of the check, such as cpu-affinity.
      fault: to be mended before a run can be trusted or started; a note otherwise.
      what: what was found.
      exact: what it can touch with numerics: exact; "nothing" mostly.
      native: what it can touch with numerics: native.
      fix: a command that ends it.
    """

    name: str
    fault: bool
    what: str
    exact: str
    native: str
    fix: str

    def line(self) -> str:
        """The finding as one line of printable ASCII."""
        kind = "fault" if self.fault else "note"
        text = (
            f"{kind} {self.name}: {self.what}; touches exact: {self.exact}, "
            f"native: {self.native}; fix: {self.fix}"
        )
        return ascii(" ".join(text.split()))[1:-1].replace("\\'", "'")
