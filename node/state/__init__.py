"""A machine's packages, files and services: what is there, what is wanted, and what was found.

    state.inspection:look         answer the differences and what would fix them; change nothing
    state.inspection:verify       fail with the differences
    state.steps:begin       write down what the machine is like before a change
    state.steps:keys        fetch repositories' keys, and install those that are right
    state.steps:finish      write down what the change made new; fail if something differs
    state.steps:account     the same after a failure: fails for nothing that differs
    state.steps:undo        answer what takes it all off again; change nothing
    state.steps:forget      remove the ledger, or say what could not be removed

roles/node_state/meta/argument_specs.yml says what the lists of their spec hold.

The ledger, /var/lib/trainbench/<name>.json, holds what was new because of us: never more, so that
removal leaves what was found. While a change is under way it also holds the list of packages from
before, which a change that dies leaves there for the next one to compare with.
"""
