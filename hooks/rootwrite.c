/*
 * The part of the root handle that changes a container's tree.
 *
 * A file is replaced by a rename, so no link is followed and no file truncated. With `one_mount` a path that crosses
 * into another mount (a volume, a directory of the host) is refused with -EXDEV, except the container's own /dev
 * (rootdev.c). Several hooks may work on the same
 * root at once; each renames only files that it created itself.
 */
#define _GNU_SOURCE
#include "root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

int root_parent(const struct root *root, const char *path, const char **base)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;

    *base = slash ? slash + 1 : path;
    if (!**base || !strcmp(*base, ".") || !strcmp(*base, ".."))
        return -EINVAL;
    if (length + 2 > sizeof folder)
        return -ENAMETOOLONG;
    memcpy(folder, path, length);
    strcpy(folder + length, length ? "" : ".");
    int fd = root_at(root, folder, O_RDONLY | O_DIRECTORY, root->one_mount ? RESOLVE_NO_XDEV : 0);
    if (fd == -EXDEV && root->own_dev)
        fd = root_own_dev(root, folder);
    int rc = fd < 0 ? 0 : cover_check(root, path, false);
    if (rc)
        close(fd);
    return rc ? rc : fd;
}

static bool owner_wanted(const struct root *root)
{
    return root->uid != ROOT_NOBODY || root->gid != (gid_t)ROOT_NOBODY;
}

/*
 * A new file is written under a spare name before the rename. The names are few and fixed, so that a later hook finds
 * and removes the file of a killed hook. A lock on the file distinguishes both cases: while a hook writes a file it
 * holds the lock, and the kernel removes the lock when the process ends.
 */
enum { SPARE_NAMES = 8, SPARE = 32 };

static bool is_named(int folder, const char *name, const struct stat *st)
{
    struct stat there;

    return !fstatat(folder, name, &there, AT_SYMLINK_NOFOLLOW) && there.st_dev == st->st_dev &&
           there.st_ino == st->st_ino;
}

/* Removes a spare file that no hook is writing. False: a hook is writing it, or it cannot be removed. */
static bool remove_left_over(int folder, const char *spare)
{
    struct stat st;
    cleanup_fd int fd = root_entry(folder, spare, true, &st, NULL);

    if (fd == -ENOENT)
        return true;
    if (fd >= 0 && (flock(fd, LOCK_EX | LOCK_NB) || !is_named(folder, spare, &st)))
        return false;
    return !unlinkat(folder, spare, 0); /* hooks create only regular files here */
}

/* Creates a spare file and locks it; -EBUSY: another hook uses this name. */
static int make_spare(int folder, const char *spare)
{
    struct stat st;
    cleanup_fd int fd = openat(folder, spare, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return errno == EEXIST ? -EBUSY : -errno;
    /* Between these two calls another hook may have seen it without a lock, and removed it as left over. */
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return -EBUSY;
    if (fstat(fd, &st))
        return -errno;
    if (!is_named(folder, spare, &st))
        return -EBUSY;
    int kept = fd;
    fd = -1;
    return kept;
}

static int spare_file(int folder, char spare[SPARE])
{
    for (int number = 0; number < SPARE_NAMES; number++) {
        snprintf(spare, SPARE, ".cdi-shim~%d", number);
        int fd = make_spare(folder, spare);
        if (fd == -EBUSY && remove_left_over(folder, spare))
            fd = make_spare(folder, spare);
        if (fd != -EBUSY)
            return fd;
    }
    return -EBUSY;
}

/* A link cannot be locked, so its spare name is unique to this process. */
static int spare_link(int folder, char spare[SPARE], const char *target)
{
    for (int turn = 0; turn < SPARE_NAMES; turn++) {
        uint64_t number;
        if (getrandom(&number, sizeof number, 0) != sizeof number)
            return -errno;
        snprintf(spare, SPARE, ".cdi-shim~%016llx", (unsigned long long)number);
        if (!symlinkat(target, folder, spare))
            return 0;
        if (errno != EEXIST)
            return -errno;
    }
    return -EEXIST;
}

/* Renames a spare file to its final name, or removes it when RC is an error. */
static int settle(int folder, const char *spare, const char *base, int rc)
{
    if (!rc && renameat(folder, spare, folder, base))
        rc = -errno;
    if (rc)
        unlinkat(folder, spare, 0);
    return rc;
}

static int fill(const struct root *root, int fd, const void *data, size_t size, mode_t mode)
{
    const char *from = data;

    while (size) {
        ssize_t put = write(fd, from, size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -errno;
        from += put;
        size -= (size_t)put;
    }
    if (owner_wanted(root) && fchown(fd, root->uid, root->gid))
        return -errno;
    if (fchmod(fd, mode))
        return -errno;
    return root->sync && fsync(fd) ? -errno : 0;
}

int root_replace(const struct root *root, const char *path, const void *data, size_t size, mode_t mode)
{
    char spare[SPARE];
    const char *base;
    cleanup_fd int folder = root_parent(root, path, &base);

    if (folder < 0)
        return folder;
    cleanup_fd int fd = spare_file(folder, spare);
    if (fd < 0)
        return fd;
    return settle(folder, spare, base, fill(root, fd, data, size, mode));
}

static int chown_link(const struct root *root, int folder, const char *name)
{
    if (!owner_wanted(root))
        return 0;
    return fchownat(folder, name, root->uid, root->gid, AT_SYMLINK_NOFOLLOW) ? -errno : 0;
}

int root_link_new(const struct root *root, int folder, const char *name, const char *target)
{
    return symlinkat(target, folder, name) ? -errno : chown_link(root, folder, name);
}

int root_link_at(const struct root *root, int folder, const char *name, const char *target)
{
    char spare[SPARE];

    int rc = root_link_new(root, folder, name, target);
    if (rc != -EEXIST)
        return rc;
    rc = spare_link(folder, spare, target);
    return rc ? rc : settle(folder, spare, name, chown_link(root, folder, spare));
}

int root_link(const struct root *root, const char *path, const char *target)
{
    const char *base;
    cleanup_fd int folder = root_parent(root, path, &base);

    return folder < 0 ? folder : root_link_at(root, folder, base, target);
}

int root_unlink(const struct root *root, const char *path)
{
    const char *base;
    cleanup_fd int folder = root_parent(root, path, &base);

    if (folder < 0)
        return folder;
    return unlinkat(folder, base, 0) ? -errno : 0;
}

static int mkdir_one(const struct root *root, const char *path, mode_t mode)
{
    const char *base;
    cleanup_fd int folder = root_parent(root, path, &base);

    if (folder < 0)
        return folder;
    if (mkdirat(folder, base, 0700))
        return -errno;
    cleanup_fd int fd = openat(folder, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (owner_wanted(root) && fchown(fd, root->uid, root->gid))
        return -errno;
    return fchmod(fd, mode) ? -errno : 0;
}

int root_mkdir(const struct root *root, const char *path, mode_t mode)
{
    char part[4096];
    size_t length = strlen(path);

    if (length >= sizeof part)
        return -ENAMETOOLONG;
    for (size_t end = 1; end <= length; end++) {
        if (path[end] != '/' && path[end])
            continue;
        memcpy(part, path, end);
        part[end] = 0;
        cleanup_fd int there = root_at(root, part, O_PATH | O_DIRECTORY, 0);
        int rc = there == -ENOENT ? mkdir_one(root, part, mode) : there < 0 ? there : 0;
        if (rc)
            return rc;
    }
    return 0;
}

int root_mkdir_parent(const struct root *root, const char *path, mode_t mode)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');

    if (!slash || slash == path)
        return 0;
    if ((size_t)(slash - path) >= sizeof folder)
        return -ENAMETOOLONG;
    memcpy(folder, path, (size_t)(slash - path));
    folder[slash - path] = 0;
    return root_mkdir(root, folder, mode);
}
