"""What servers keep objects in, of which nothing is left when nobody has it open any more.

usage: disks.py files DIRECTORY SIZE COUNT
       disks.py loops FILE...

The first makes sparse files that have no name, the second block devices on files, which the kernel
detaches when the last process has closed them. Each prints a path for each, by which others may open
it, and holds all of them until it is killed.
"""

import errno
import fcntl
import os
import signal
import struct
import sys

# From linux/loop.h.
LOOP_CTL_GET_FREE = 0x4C82
LOOP_CONFIGURE = 0x4C0A
LO_FLAGS_AUTOCLEAR = 4
LO_FLAGS_DIRECT_IO = 16
SECTOR_BYTES = 512
# struct loop_config: the file, the block size, then loop_info64, whose flags are its only part here.
CONFIGURATION = struct.Struct("=II 52x I 176x 64x")


def unnamed(directory, size):
    """The path of a new sparse file of `size` bytes on the file system of `directory`."""
    file = os.open(directory, os.O_TMPFILE | os.O_RDWR, 0o600)
    os.truncate(file, size)
    return f"/proc/{os.getpid()}/fd/{file}"


def attached(path):
    """The path of a block device on a file, which it takes the time of, too."""
    file = os.open(path, os.O_RDWR)
    control = os.open("/dev/loop-control", os.O_RDWR)
    flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO
    while True:
        name = f"/dev/loop{fcntl.ioctl(control, LOOP_CTL_GET_FREE)}"
        device = os.open(name, os.O_RDWR)
        try:
            fcntl.ioctl(device, LOOP_CONFIGURE, CONFIGURATION.pack(file, SECTOR_BYTES, flags))
            return name
        except OSError as error:
            os.close(device)
            # Somebody else may have been faster.
            if error.errno != errno.EBUSY:
                raise


what, *of = sys.argv[1:]
if what == "files":
    directory, size, count = of
    paths = (unnamed(directory, int(size)) for _ in range(int(count)))
else:
    paths = (attached(path) for path in of)
for path in paths:
    print(path, flush=True)
signal.pause()
