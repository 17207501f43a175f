"""The hardware abstraction layer: drivers, devices, memory, streams, errors and the registry.

Nothing in here knows an operator's meaning; nothing above ``devices/`` knows a device's name.
"""

if not __name__.startswith("halon."):
    raise ImportError(f"import this package as halon.{__name__}, not {__name__}")
