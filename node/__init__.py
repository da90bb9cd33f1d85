"""Programs that run on nodes, and what they share. Standard library only, Python 3.8 or newer.

A program is a function of a module here, named as `module:function` (`env.inspection:look`): it
gets one JSON value and returns another, or raises node.answer.ProgramError. plugins/program.py
sends it with only the modules that it imports; nothing of it has to be on the node. Modules that
need more than the standard library say so in their first lines, and import it where they use it.
"""
