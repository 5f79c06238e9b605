/*
 * The lowest part of the root handle: the kernel resolves a path below a descriptor, within the handle's deadline.
 */
#define _GNU_SOURCE
#include "newcalls.h"
#include "root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <time.h>

enum { RACES = 64 }; /* openat2 fails with EAGAIN when a rename elsewhere disturbed a `..`; so many are an attack */

int root_openat2(int from, const char *path, int flags, uint64_t resolve)
{
    struct open_how how = {.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC), .resolve = resolve};

    for (int turn = 0; turn < RACES; turn++) {
        long fd = syscall(SYS_openat2, from, path, &how, sizeof how);
        if (fd >= 0)
            return (int)fd;
        if (errno != EAGAIN && errno != EINTR)
            return -errno;
    }
    return -EAGAIN;
}

static int64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

void root_limit(struct root *root, unsigned milliseconds)
{
    root->deadline = now() + milliseconds * 1000000LL;
}

int root_late(const struct root *root)
{
    return root->deadline && now() > root->deadline ? -ETIMEDOUT : 0;
}

int root_resolve(const struct root *root, const char *path, int flags)
{
    int late = root_late(root);

    return late ? late : root_openat2(root->fd, path, flags, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

int root_below(int directory, const char *path, int flags)
{
    return root_openat2(directory, path, flags, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}
