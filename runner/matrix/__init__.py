"""A matrix file to cells. Pure, except reading the file."""
