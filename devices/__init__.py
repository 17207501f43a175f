"""The devices: one folder each: ``driver.py`` (memory, launches), ``kernels.py`` (rows)."""

if not __name__.startswith("halon."):
    raise ImportError(f"import this package as halon.{__name__}, not {__name__}")
