"""A matrix file to cells. Pure, but for reading the file."""
