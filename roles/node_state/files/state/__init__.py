"""A machine's packages, files and services: what is there, what is wanted, and what was found.

    python3 -c TEXT look < SPEC     print the differences and what would mend them; change nothing
    python3 -c TEXT verify < SPEC   fail with the differences
    python3 -c TEXT begin < SPEC    write down what the machine is like before a change
    python3 -c TEXT wanted < SPEC   print what apt would be asked for, and its sources
    python3 -c TEXT key < SPEC      install repositories' keys that were fetched, if they are right
    python3 -c TEXT finish < SPEC   write down what the change made new; fail if something differs
    python3 -c TEXT account < SPEC  the same after a failure: fails for nothing that differs
    python3 -c TEXT undo < SPEC     print what takes it all off again; change nothing
    python3 -c TEXT forget < SPEC   remove the ledger, or say what could not be taken off

TEXT is this folder as plugins/program.py makes one text of it. SPEC is JSON;
roles/node_state/meta/argument_specs.yml says what its lists hold. Runs on the node by its own
Python (3.8 or newer). What goes wrong is one sentence on stderr, and exit code 1.

The ledger, /var/lib/trainbench/<name>.json, holds what was new because of us: never more, so that
removal leaves what was found. While a change is under way it also holds the list of packages from
before, which a change that dies leaves there for the next one to compare with.
"""
