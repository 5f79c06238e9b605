/*
 * System calls that are newer than the headers of the oldest C library with which this can be built: glibc 2.31 knows
 * the calls of Linux 5.4, its distribution's headers the structures of 5.10. Since Linux 5.1 a new call has the same
 * number on every architecture. A kernel without the call answers ENOSYS.
 */
#pragma once

#include <fcntl.h>
#include <linux/mount.h>
#include <stdint.h>
#include <sys/syscall.h>

#ifndef SYS_openat2
#define SYS_openat2 437
#endif

#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif

#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

#ifndef MOUNT_ATTR_IDMAP /* the headers that have it have the structure, too */
#define MOUNT_ATTR_IDMAP 0x00100000
struct mount_attr {
    uint64_t attr_set, attr_clr, propagation, userns_fd;
};
#endif
