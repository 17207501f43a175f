"""Reverse-mode automatic differentiation over recorded nodes."""

if not __name__.startswith("halon."):
    raise ImportError(f"import this package as halon.{__name__}, not {__name__}")
