"""The tensor: what people hold. Views, indexing, creation, random numbers, printing, doors."""

if not __name__.startswith("halon."):
    raise ImportError(f"import this package as halon.{__name__}, not {__name__}")
