"""The opencl device."""
