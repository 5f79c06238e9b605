/*
 * The directory of our files of this boot, and their names. Python, which writes these files, has the same rules:
 * shim/host/identity.py (which user, which directory), shim/create/record.py (the key of a record) and
 * shim/config/location.py (which configuration counts); the tests compare the two.
 */
#define _GNU_SOURCE
#include "places.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The identity mapping of user_namespaces(7), with columns of any width. Without the file there are no namespaces. */
bool is_rootful(void)
{
    char text[128];
    unsigned long inside, outside, count;
    if (geteuid() != 0)
        return false;
    cleanup_fd int fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return true;
    ssize_t size = read(fd, text, sizeof text - 1);
    if (size <= 0)
        return false;
    text[size] = '\0';
    char *line = strchr(text, '\n');
    return line && !line[1] && sscanf(text, "%lu %lu %lu", &inside, &outside, &count) == 3 && inside == 0 &&
           outside == 0 && count == UINT32_MAX;
}

/* The predicate of is_ours, for a status. */
static bool is_private(const struct stat *status, mode_t kind)
{
    return (status->st_mode & S_IFMT) == kind && status->st_uid == geteuid() &&
           !(status->st_mode & (S_IWGRP | S_IWOTH));
}

int run_directory(char *out, size_t room)
{
    struct stat status;
    const char *base = "/run";
    if (!is_rootful()) {
        base = getenv("XDG_RUNTIME_DIR");
        if (!base || *base != '/')
            return -ENOENT;
        if (stat(base, &status) != 0)
            return -errno;
        /* podman lets all users pass through the user's directory; no other user may write to it */
        if (!is_private(&status, S_IFDIR))
            return -EPERM;
    }
    if (strlen(base) + sizeof "/shim" > room)
        return -ENAMETOOLONG;
    snprintf(out, room, "%s/shim", base);
    return 0;
}

bool is_ours(int fd, mode_t kind)
{
    struct stat status;
    return fstat(fd, &status) == 0 && is_private(&status, kind);
}

uint64_t short_name(uint64_t before, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        before = (before ^ (unsigned char)bytes[i]) * 0x100000001b3;
    return before;
}

void record_key(char out[KEY_SIZE], const char *name, const char *root, const char *id)
{
    const char *const texts[] = {name, root ? root : "", id ? id : ""};
    uint64_t key = SHORT_NAME;
    for (int i = 0; i < 3; i++) /* separated by NULs */
        key = short_name(key, texts[i], strlen(texts[i]) + (i < 2));
    snprintf(out, KEY_SIZE, "%016llx", (unsigned long long)key);
}

bool has_record(const char *key)
{
    char path[PATH_MAX];
    if (run_directory(path, sizeof path - sizeof "/c/" - KEY_SIZE) != 0)
        return false;
    size_t size = strlen(path);
    snprintf(path + size, sizeof path - size, "/c/%s", key);
    cleanup_fd int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0;
}
