"""What systems share: the interface, launchers, GPT models, pins. `registry` finds them."""
