"""Kernel sources and the generators that print them: PK for OpenCL and CUDA, C for the CPU.

Generators receive expression trees (``halon.kernels.tree``); nothing here imports the dispatcher.
"""

if not __name__.startswith("halon."):
    raise ImportError(f"import this package as halon.{__name__}, not {__name__}")
