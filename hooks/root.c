/*
 * The root handle, through which all files of a container's tree are read and written.
 *
 * The tree comes from the image's author, and other containers may change parts of it meanwhile. So no path is ever
 * appended to the root's path and given to the kernel. There is one descriptor, and openat2 resolves each path below
 * it: links, `..` and absolute targets stay inside (RESOLVE_IN_ROOT), magic links of /proc, which can lead to any file,
 * are refused (RESOLVE_NO_MAGICLINKS). A kernel without openat2 (before 5.6, or a filter) is reported as -ENOSYS when
 * the handle is opened, so that nothing is written there.
 *
 * Reading. Only regular files are read, and opening must have no side effect: a FIFO would block, opening a watchdog
 * arms it. A file that others may replace is first opened with O_PATH, checked, and then opened through /proc/self/fd,
 * which gives the same file. Only the entries of a directory on the root's own mount are opened directly, which saves
 * two calls for each of a thousand libraries; no other process uses that mount while a container is being created.
 *
 * A hook has more privileges than the image's author and the container's users, and they all can read what it writes.
 * So there are two rules for what it may read:
 *
 *     configuration  files that are obeyed or copied (ld.so.conf and its includes, ld-musl-ARCH.path, ld.so.cache): a
 *                    regular file on the root's own mount, reached without leaving that mount (root_config), so never a
 *                    file of a volume, of a directory of the host, of procfs or sysfs.
 *     libraries      may lie on any mount, since a driver's libraries are mounted into the container; only the soname
 *                    and the kind of an ELF file go into the cache, of libc.so.6 also the version in its banner. Never
 *                    on a file system that shows the kernel's state (is_kernel_view).
 *
 * rootpath.c resolves a path, rootwrite.c changes a tree, cover.c has the future mounts.
 */
#define _GNU_SOURCE
#include "root.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

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
    cleanup_fd int probe = root_openat2(fd, ".", O_PATH, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
    if (probe == -EPERM) /* the error of old seccomp filters for an unknown call */
        probe = -ENOSYS;
    if (probe == -ENOSYS)
        return fault_say(fault, ENOSYS,
                         "this kernel (before 5.6, or a filter) has no openat2: nothing is written below %s", path);
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

int root_at(const struct root *root, const char *path, int flags, uint64_t more)
{
    int late = root_late(root);
    int fd = late ? late : root_openat2(root->fd, path, flags, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | more);

    if (!root->covers || (fd < 0 && fd != -ENOENT))
        return fd;
    int rc = cover_check(root, path, !(flags & O_NOFOLLOW));
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

int root_directory(const struct root *root, const char *path, bool *foreign)
{
    int fd = root_at(root, path, O_RDONLY | O_DIRECTORY, RESOLVE_NO_XDEV);

    *foreign = fd == -EXDEV;
    return *foreign ? root_at(root, path, O_RDONLY | O_DIRECTORY, 0) : fd;
}

/* Whether a file shows the kernel's state: its contents may be for root only, and reading it may have side effects. */
static bool is_kernel_view(int fd)
{
    static const uint32_t kinds[] = {PROC_SUPER_MAGIC, SYSFS_MAGIC,        DEBUGFS_MAGIC,       TRACEFS_MAGIC,
                                     SECURITYFS_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, BPF_FS_MAGIC,
                                     PSTOREFS_MAGIC,   EFIVARFS_MAGIC,     SELINUX_MAGIC,       SMACK_MAGIC};
    struct statfs fs;

    if (fstatfs(fd, &fs))
        return true;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if ((uint32_t)fs.f_type == kinds[i])
            return true;
    return false;
}

/* Opens the regular file of an O_PATH descriptor to read it; the errors are those of root_config. */
static int reopen(int pinned, struct stat *st)
{
    char path[40];

    if (fstat(pinned, st))
        return -errno;
    if (!S_ISREG(st->st_mode))
        return S_ISDIR(st->st_mode) ? -EISDIR : S_ISLNK(st->st_mode) ? -ELOOP : -EINVAL;
    if (is_kernel_view(pinned))
        return -EINVAL;
    snprintf(path, sizeof path, "/proc/self/fd/%d", pinned);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int root_regular(const struct root *root, const char *path, struct stat *st)
{
    cleanup_fd int pinned = root_at(root, path, O_PATH, 0);

    return pinned < 0 ? pinned : reopen(pinned, st);
}

int root_config(const struct root *root, const char *path, bool follow, struct stat *st)
{
    cleanup_fd int pinned = root_at(root, path, O_PATH | (follow ? 0 : O_NOFOLLOW), RESOLVE_NO_XDEV);

    return pinned < 0 ? pinned : reopen(pinned, st);
}

int root_entry(int directory, const char *name, bool foreign, struct stat *st, bool *mounted)
{
    if (!foreign) {
        cleanup_fd int fd = root_openat2(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY,
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
        if (mounted)
            *mounted = true;
    }
    /* Others may replace files of this mount. */
    cleanup_fd int pinned = root_openat2(directory, name, O_PATH | O_NOFOLLOW, RESOLVE_BENEATH);
    return pinned < 0 ? pinned : reopen(pinned, st);
}

ssize_t root_read(const struct root *root, int fd, char *into, size_t room)
{
    size_t have = 0;

    for (;;) {
        char more;
        bool full = have == room;
        ssize_t got = read(fd, full ? &more : into + have, full ? 1 : room - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            return (ssize_t)have;
        if (full)
            return -EFBIG;
        have += (size_t)got;
        int late = root_late(root);
        if (late)
            return late;
    }
}

bool root_holds(const struct root *root, const char *path, const void *data, size_t size)
{
    struct stat st;
    char part[4096];
    cleanup_fd int fd = root_config(root, path, false, &st);

    if (fd < 0 || (uint64_t)st.st_size != size)
        return false;
    for (const char *at = data, *end = at + size; at < end;) {
        ssize_t got = read(fd, part, sizeof part);
        if (got <= 0 || got > end - at || memcmp(part, at, (size_t)got))
            return false;
        at += got;
    }
    return true;
}

bool root_empty(const struct root *root)
{
    _Alignas(struct dirent) char buffer[4096];
    cleanup_fd int fd = root_resolve(root, "/", O_RDONLY | O_DIRECTORY);
    long got = fd < 0 ? -1 : syscall(SYS_getdents64, fd, buffer, sizeof buffer);

    for (char *at = buffer; at < buffer + got;) {
        struct dirent *entry = (struct dirent *)(void *)at;
        at += entry->d_reclen;
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            return false;
    }
    return got >= 0;
}
