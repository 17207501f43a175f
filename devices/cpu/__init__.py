"""The cpu device."""
