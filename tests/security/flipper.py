"""Exchanges two paths as fast as the kernel can, until its standard input closes: `flipper.py ONE TWO`.

Says `ready` once it has begun, and at its end how often it exchanged them. ONE is what it was when the number is even; it
puts them back otherwise.
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
    threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
    count = 0
    while not done.is_set() or count % 2:
        if libc.renameat2(AT_FDCWD, one, AT_FDCWD, two, EXCHANGE) == 0:
            count += 1
        if count == 1:
            print("ready", flush=True)
    print(count, flush=True)


if __name__ == "__main__":
    main()
