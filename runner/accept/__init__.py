"""Accept a cluster, or name its bad nodes. docs/how-to/accept.md.

`stages` has what is asked, in order of growing scale; `session` does it and goes on where it
stopped; `training` is the last stage; `answer` sums up, `page` writes it for a provider.
"""
