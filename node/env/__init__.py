"""One Python environment: exact pins in steps, and a lock of everything that is in it.

    env.inspection:look        say what is there and what is to do, and change nothing
    env.inspection:verify      say whether it is what it should be, and change nothing
    env.change:create    make the empty environment; for conda only its place
    env.change:step      do one thing of look's list, the spec's `do`

Their spec: path (of the environment), python (wanted version, such as 3.8, or ""), interpreter
(the node's usual one), interpreters (patterns of further ones), existing (somebody else's Python),
steps, later (names of those that are not to be done yet), constraints (name==version lines), index,
extra_index, find_links, mirrors (kind to beginning to its replacement), environment
(variables for what a build runs), cpu (whether the nodes have no GPU), cuda_accepted (whether torch
with CUDA may come there all the same).

A step is a mapping with a name and one of: requirements (exact pins), wheel ({project, version,
sha256, file}), tree ({path, identity, editable}) or built ({folder, identity}: a wheel that
somebody else puts there); also index, no_deps, no_build_isolation, environment (for its build),
project (what a tree or build is called when it is installed), sha256 (of its one requirement),
optional (somebody else's Python may lack it).

Beside the environment lie lock.txt, which has every package with its version, env.json, which says
how it was made, and logs/. The environment's Python may be older than the one that runs this.
"""
