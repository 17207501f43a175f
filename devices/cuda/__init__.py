"""The cuda device."""
