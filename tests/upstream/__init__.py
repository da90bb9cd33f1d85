"""Our commands and patches beside the trainers' own repositories.

TRAINBENCH_MIRRORS names a folder of git repositories, `<owner>/<name>` as on GitHub; without it,
or where one is absent, these tests are skipped and say so.
"""
