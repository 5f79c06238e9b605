"""The readers of the host: /proc, /sys, /dev, netlink, ELF. They know nothing of specs or engines."""
