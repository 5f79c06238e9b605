"""Exchanges two paths as fast as the kernel can, until its standard input closes: `flipper.py ONE TWO`.

Says `ready` once it has begun, and at its end how often it exchanged them: an even number, so that ONE is what it was.
"""

import ctypes
import os
import sys
import threading

AT_FDCWD, EXCHANGE = -100, 2


def main() -> None:
    one, two = map(os.fsencode, sys.argv[1:])
    libc = ctypes.CDLL(None, use_errno=True)
    done = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        done.set()

    threading.Thread(target=wait, daemon=True).start()
    count = 0
    while not done.is_set() or count % 2:
        if libc.renameat2(AT_FDCWD, one, AT_FDCWD, two, EXCHANGE) == 0:
            count += 1
        if count == 1:
            sys.stdout.write("ready\n")
            sys.stdout.flush()
    sys.stdout.write(f"{count}\n")


if __name__ == "__main__":
    main()
