"""Accept a cluster, or name its bad nodes. docs/how-to/accept.md.

`stages` has what is asked, in order of growing scale, does it and goes on where it stopped;
`session` is what they work with, `training` the last of them; `answer` sums up, `provider_page`
writes it for a provider.
"""
