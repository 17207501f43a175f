"""The reference device."""
