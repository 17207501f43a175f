"""PK: the portable kernel dialect (``pk.h``), its sources and the generators that print it."""
