"""Records of operators, and the planner and executor that run them on a device.

Python plans once: ``select.call`` looks a signature up, ``plan.build`` decides everything about it,
``hot.run`` repeats it.
"""

if not __name__.startswith("halon."):
    raise ImportError(f"import this package as halon.{__name__}, not {__name__}")
