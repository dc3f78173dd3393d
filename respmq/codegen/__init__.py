"""Writes the parts of the package that follow from the command table."""
