/*
 * The files that a repeated create, an exec or an update reads and writes. Directories and files of ours count only if no other user
 * could have written them (places.h). A file of an engine is replaced under the same lock as in Python
 * (shim/create/bundle.py), and only if it is the file that was read.
 */
#define _GNU_SOURCE
#include "ownfiles.h"
#include "places.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

int open_ours(const char *name)
{
    char path[PATH_MAX];
    if (run_directory(path, sizeof path - 64) != 0)
        return -1;
    cleanup_fd int above = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (above < 0 || !is_ours(above, S_IFDIR))
        return -1;
    int fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && !is_ours(fd, S_IFDIR)) {
        close(fd);
        return -1;
    }
    return fd;
}

ssize_t read_ours(int directory, const char *name, char *bytes, size_t room)
{
    size_t size = 0;
    cleanup_fd int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || !is_ours(fd, S_IFREG))
        return -1;
    for (ssize_t part; size < room; size += (size_t)part) {
        part = read(fd, bytes + size, room - size);
        if (part < 0)
            return -1;
        if (part == 0)
            break;
    }
    return (ssize_t)size;
}

bool read_engine_file(const char *path, char *text, size_t room, struct stat *status, size_t *size)
{
    *size = 0;
    if (lstat(path, status) != 0 || !S_ISREG(status->st_mode)) /* not opened: a writer of a FIFO would notice */
        return false;
    cleanup_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, status) != 0 || !S_ISREG(status->st_mode))
        return false;
    for (ssize_t part; *size < room; *size += (size_t)part) {
        part = read(fd, text + *size, room - *size);
        if (part < 0)
            return false;
        if (part == 0)
            break;
    }
    text[*size] = '\0';
    return *size < room;
}

static bool is_same_time(struct timespec first, struct timespec second)
{
    return first.tv_sec == second.tv_sec && first.tv_nsec == second.tv_nsec;
}

static bool is_same_file(const struct stat *first, const struct stat *second)
{
    return first->st_dev == second->st_dev && first->st_ino == second->st_ino && first->st_size == second->st_size &&
           is_same_time(first->st_mtim, second->st_mtim) && is_same_time(first->st_ctim, second->st_ctim);
}

bool write_all(int fd, const char *text, size_t size)
{
    for (ssize_t part; size; text += part, size -= (size_t)part) {
        part = write(fd, text, size);
        if (part < 0)
            return false;
    }
    return true;
}

/* Inserts are short and many, so they are written together. */
bool write_edited(int fd, const struct edited *edited)
{
    static struct span parts[MAX_PARTS];
    static char buffer[64 << 10];
    size_t used = 0;
    unsigned count = insert_parts(edited->inserts, edited->tree, edited->size, parts);
    for (unsigned i = 0; i < count; i++) {
        if (parts[i].size > sizeof buffer - used) {
            if (!write_all(fd, buffer, used))
                return false;
            used = 0;
        }
        if (parts[i].size > sizeof buffer) {
            if (!write_all(fd, parts[i].text, parts[i].size))
                return false;
            continue;
        }
        memcpy(buffer + used, parts[i].text, parts[i].size);
        used += parts[i].size;
    }
    return write_all(fd, buffer, used);
}

/* Creates a new file; a file that a killed process has left is removed. */
static int create_file(const char *path)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = open(path, flags, 0600);
    if (fd < 0 && errno == EEXIST && unlink(path) == 0)
        fd = open(path, flags, 0600);
    return fd;
}

/* Writes the new file beside the old file, with its owner and mode: dockerd starts runtimes with umask 0. */
static bool write_beside(const char *path, const struct edited *edited)
{
    const struct stat *old = edited->status;
    cleanup_fd int fd = create_file(path);
    if (fd < 0)
        return false;
    return ((geteuid() == old->st_uid && getegid() == old->st_gid) || fchown(fd, old->st_uid, old->st_gid) == 0) &&
           fchmod(fd, old->st_mode & 07777) == 0 && write_edited(fd, edited);
}

bool replace_edited(const char *path, const struct edited *edited, struct stat *written)
{
    char beside[PATH_MAX + 32];
    struct stat now;
    cleanup_fd int lock = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (lock < 0 || lockf(lock, F_LOCK, 0) != 0 || lstat(path, &now) != 0 || !is_same_file(&now, edited->status))
        return false;
    if (snprintf(beside, sizeof beside, "%s.shim-%d", path, (int)getpid()) >= (int)sizeof beside)
        return false;
    if (write_beside(beside, edited) && rename(beside, path) == 0)
        return lstat(path, written) == 0;
    unlink(beside);
    return false;
}
