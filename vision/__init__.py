"""Images: data sets that ship with halon."""

if not __name__.startswith("halon."):
    raise ImportError(f"import this package as halon.{__name__}, not {__name__}")

from halon.vision.digits import digits_split, load_digits

__all__ = ["digits_split", "load_digits"]
