"""What starts runs, as inventories say it: a module an engine, and the table that names them."""
