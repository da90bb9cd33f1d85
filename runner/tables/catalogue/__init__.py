"""The catalogue of columns: one entry a figure; every list of columns is a view of it."""
