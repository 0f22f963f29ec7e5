"""Files without names, for servers to keep objects in: the last process that has one open takes it along.

usage: disks.py DIRECTORY SIZE COUNT

Prints a path of each, by which others may open it as long as this process lives, and waits to be
killed.
"""

import os
import signal
import sys


def unnamed(directory, size):
    """The path of a new sparse file of `size` bytes on the file system of `directory`."""
    file = os.open(directory, os.O_TMPFILE | os.O_RDWR, 0o600)
    os.truncate(file, size)
    return f"/proc/{os.getpid()}/fd/{file}"


for _ in range(int(sys.argv[3])):
    print(unnamed(sys.argv[1], int(sys.argv[2])), flush=True)
signal.pause()
