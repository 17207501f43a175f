"""Builds the native CPU kernels (cffi API mode, abi3); everything else is in pyproject.toml."""

from setuptools import setup

setup(cffi_modules=["kernels/build_cpu.py:ffibuilder"])
