/*
 * The root handle: every look at, and every write to, a container's tree goes through here.
 *
 * The tree belongs to whoever made the image, and parts of it may be changed by other containers while we work. So no
 * path is ever joined to the root's name and handed to the kernel. There is one descriptor, and openat2 resolves each
 * path below it: links, `..` and absolute targets stay inside (RESOLVE_IN_ROOT), the links of /proc that lead anywhere
 * are refused (RESOLVE_NO_MAGICLINKS). A kernel without openat2 (before 5.6, or a filter) is reported as -ENOSYS when
 * the handle is opened, so that nothing is written there.
 *
 * Reading. Only regular files, and opening must have no side effect: a FIFO would block, opening a watchdog arms it.
 * A file that others may exchange is first pinned with O_PATH, looked at, and then opened through /proc/self/fd: that
 * is the same file for certain. Only the entries of a directory on the root's own mount are opened directly, which
 * saves two calls for each of a thousand libraries; nobody else holds that mount while a container is being created.
 *
 * rootwrite.c does what changes a tree.
 */
#define _GNU_SOURCE
#include "native.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { RACES = 64 };  /* openat2 answers EAGAIN when a rename elsewhere disturbed a `..`; more than this is malice */

static int resolve(int from, const char *path, int flags, uint64_t resolve_flags)
{
    struct open_how how = {.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC), .resolve = resolve_flags};

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

/*
 * Opens the directory PATH as a root. Refuses the system's own root (by device and inode, so also a bind mount of it)
 * and a last component that is a link. Fails with -ENOSYS where openat2 is missing.
 */
int root_open(struct root *root, const char *path, struct fault *fault)
{
    *root = (struct root){.fd = -1, .uid = ROOT_NOBODY, .gid = ROOT_NOBODY};

    cleanup_fd int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return fault_set(fault, errno, "cannot open the root %s", path);
    struct stat mine, system;
    if (fstat(fd, &mine) || stat("/", &system))
        return fault_set(fault, errno, "cannot look at the root %s", path);
    if (mine.st_dev == system.st_dev && mine.st_ino == system.st_ino)
        return fault_say(fault, EPERM, "%s is this system's own root directory, not a container's", path);
    cleanup_fd int probe = resolve(fd, ".", O_PATH, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
    if (probe == -EPERM)  /* how old seccomp filters answer an unknown call */
        probe = -ENOSYS;
    if (probe == -ENOSYS)
        return fault_say(fault, ENOSYS, "this kernel (before 5.6, or a filter) has no openat2: nothing is written below %s", path);
    if (probe < 0)
        return fault_set(fault, -probe, "cannot look below %s", path);
    root->fd = fd;
    fd = -1;
    return 0;
}

void root_close(struct root *root)
{
    close_fd(&root->fd);
    root->fd = -1;
}

/* openat2 below the root; answers a descriptor. */
int root_resolve(const struct root *root, const char *path, int flags)
{
    int late = root_late(root);

    return late ? late : resolve(root->fd, path, flags, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

/* The same, unless something will be mounted over it. */
int root_at(const struct root *root, const char *path, int flags, uint64_t more)
{
    int late = root_late(root);
    int fd = late ? late : resolve(root->fd, path, flags, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | more);

    if (!root->covers || (fd < 0 && fd != -ENOENT))
        return fd;
    int rc = cover_check(root, path, fd, !(flags & O_NOFOLLOW));
    if (rc && fd >= 0)
        close(fd);
    return rc ? rc : fd;
}

static int stat_by(const struct root *root, const char *path, int flags, struct stat *st)
{
    cleanup_fd int fd = root_at(root, path, O_PATH | flags, 0);

    if (fd < 0)
        return fd;
    return fstat(fd, st) ? -errno : 0;
}

int root_stat(const struct root *root, const char *path, struct stat *st)
{
    return stat_by(root, path, 0, st);
}

int root_lstat(const struct root *root, const char *path, struct stat *st)
{
    return stat_by(root, path, O_NOFOLLOW, st);
}

/* What lies below an open directory of the host's own, with no link on the way. */
int root_below(int directory, const char *path, int flags)
{
    return resolve(directory, path, flags, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

/* A directory to list; *foreign tells that a mount point lies on the way to it. */
int root_directory(const struct root *root, const char *path, bool *foreign)
{
    int fd = root_at(root, path, O_RDONLY | O_DIRECTORY, RESOLVE_NO_XDEV);

    *foreign = fd == -EXDEV;
    return *foreign ? root_at(root, path, O_RDONLY | O_DIRECTORY, 0) : fd;
}

/* From an O_PATH descriptor of a regular file to one that reads it. */
static int reopen(int pinned, struct stat *st)
{
    char path[40];

    if (fstat(pinned, st))
        return -errno;
    if (!S_ISREG(st->st_mode))
        return S_ISDIR(st->st_mode) ? -EISDIR : -EINVAL;
    snprintf(path, sizeof path, "/proc/self/fd/%d", pinned);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* A regular file to read: -EISDIR for a directory, -EINVAL for anything else; *st is set in these cases too. */
int root_regular(const struct root *root, const char *path, struct stat *st)
{
    cleanup_fd int pinned = root_at(root, path, O_PATH, 0);

    return pinned < 0 ? pinned : reopen(pinned, st);
}

/* A regular file NAME of a directory that is open already; a link is not followed. */
int root_entry(int directory, const char *name, bool foreign, struct stat *st)
{
    if (!foreign) {
        cleanup_fd int fd = resolve(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY,
                      RESOLVE_BENEATH | RESOLVE_NO_XDEV);
        if (fd >= 0) {
            if (fstat(fd, st))
                return -errno;
            if (!S_ISREG(st->st_mode))
                return -EINVAL;
            int kept = fd;
            fd = -1;
            return kept;
        }
        if (fd != -EXDEV)
            return fd;
    }
    /* Something is mounted over the entry, or the whole directory is somebody else's. */
    cleanup_fd int pinned = resolve(directory, name, O_PATH | O_NOFOLLOW, RESOLVE_BENEATH);
    return pinned < 0 ? pinned : reopen(pinned, st);
}

/* Reads a regular file whole and answers its length; -EFBIG when it does not fit. */
ssize_t root_read(const struct root *root, const char *path, char *into, size_t room)
{
    struct stat st;
    cleanup_fd int fd = root_regular(root, path, &st);

    if (fd < 0)
        return fd;
    if ((uint64_t)st.st_size > room)
        return -EFBIG;
    size_t have = 0;
    while (have < room) {
        ssize_t got = read(fd, into + have, room - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            return (ssize_t)have;
        have += (size_t)got;
        int late = root_late(root);
        if (late)
            return late;
    }
    char more;  /* it grew while we read */
    return read(fd, &more, 1) == 0 ? (ssize_t)have : -EFBIG;
}

/* Whether nothing is in the root: where a virtual machine brings its own. */
bool root_empty(const struct root *root)
{
    _Alignas(struct dirent64) char buffer[4096];
    cleanup_fd int fd = root_resolve(root, "/", O_RDONLY | O_DIRECTORY);
    long got = fd < 0 ? -1 : syscall(SYS_getdents64, fd, buffer, sizeof buffer);

    for (char *at = buffer; at < buffer + got;) {
        struct dirent64 *entry = (struct dirent64 *)(void *)at;
        at += entry->d_reclen;
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            return false;
    }
    return got >= 0;
}
