"""What an environment's own Python says of what is in it: it runs these, which import that.

`checks.NAME:check` of what is installed. Python 3.6 or newer: image 20.03-py3 has that.
"""
