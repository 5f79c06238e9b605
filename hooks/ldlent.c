/*
 * Lent directories and files: those of the host that will be mounted into the root, read before they are mounted.
 *
 * As long as nothing is mounted, a path of the root can be compared with the mount points by its text only. Texts come
 * from the image, so a file below a lent directory is opened from that directory, without links and `..` on the way: no
 * other file of the host can be reached.
 */
#define _GNU_SOURCE
#include "ldwork.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* Appends a path to another, without `.` and `..`: the length, SIZE_MAX when there is no room. */
static size_t add_path(char *into, size_t used, size_t room, const char *path)
{
    for (; *path; path += strspn(path, "/")) {
        size_t length = strcspn(path, "/");
        if (length == 2 && !memcmp(path, "..", 2)) {
            while (used && into[--used] != '/')
                ;
        } else if (length && !(length == 1 && *path == '.')) {
            if (used + length + 2 > room)
                return SIZE_MAX;
            into[used++] = '/';
            memcpy(into + used, path, length);
            used += length;
        }
        path += length;
    }
    return used;
}

bool ld_lexical(const char *folder, const char *target, char *into, size_t room)
{
    size_t used = target && *target == '/' ? 0 : add_path(into, 0, room, folder);

    if (used != SIZE_MAX && target)
        used = add_path(into, used, room, target);
    if (used == SIZE_MAX)
        return false;
    into[used] = 0;
    return true;
}

const struct ld_source *ld_source_over(const struct ld_work *work, dev_t dev, ino_t ino)
{
    for (size_t i = 0; i < work->source_count; i++)
        if (work->sources[i].dev == dev && work->sources[i].ino == ino)
            return &work->sources[i];
    return NULL;
}

const struct ld_source *ld_source_above(const struct ld_work *work, const char *path, const char **below)
{
    const struct ld_source *nearest = NULL;
    size_t longest = 0;

    for (size_t i = 0; i < work->source_count; i++) {
        const char *point = work->sources[i].path;
        size_t length = strlen(point);
        if (length <= longest || strncmp(path, point, length) || (path[length] && path[length] != '/'))
            continue;
        nearest = &work->sources[i];
        longest = length;
        *below = path + length + (path[length] == '/');
    }
    return nearest;
}

int ld_source_open(const struct ld_source *source, const char *below, int flags)
{
    if (!*below) {
        int fd = open(source->source, flags | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
    }
    cleanup_fd int folder = open(source->source, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return folder < 0 ? -errno : root_below(folder, below, flags);
}
