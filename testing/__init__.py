"""What tests of halon and of plug-ins share: tolerances, comparison, generated operands."""

from halon.testing.comparison import assert_close
from halon.testing.operands import Maker
from halon.testing.tolerances import TERMS, tolerance

if not __name__.startswith("halon."):
    raise ImportError(f"import this package as halon.{__name__}, not {__name__}")

__all__ = ["TERMS", "Maker", "assert_close", "tolerance"]
