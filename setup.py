"""Builds the native CPU kernels (cffi API mode, abi3); everything else is in pyproject.toml."""

from setuptools import setup

setup(
    cffi_modules=["src/halon/kernels/build_cpu.py:ffibuilder"],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
