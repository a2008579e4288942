"""Language models that label in place of people, and how far they may. Pure."""
