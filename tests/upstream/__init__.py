"""Our commands and patches beside the trainers' own repositories.

TRAINBENCH_MIRRORS names a folder of git repositories, `<owner>/<name>` as on GitHub. Without it
they are cloned to build/mirrors at night, and what needs one is skipped by day.
"""
