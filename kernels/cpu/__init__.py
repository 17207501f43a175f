"""The CPU's kernels: C sources that build_cpu.py compiles, and the builders of tile programs."""
