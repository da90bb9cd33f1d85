"""Each module is one log family: a class for each kind of its lines; kinds.py finds them."""
