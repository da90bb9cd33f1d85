"""The one exception that a user sees: one sentence that says what is wrong and names the cure."""


class UserError(Exception):
    """Bad input or a refused request; the command line prints it and exits with code 2."""
