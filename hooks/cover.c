/*
 * What will be mounted over a root: places whose contents in the tree are not what the container will see.
 *
 * A hook runs when everything is mounted, and a look into a volume sees the volume. Whoever does a hook's work before the
 * container is made sees the tree alone. So each mount of the container is a cover, and a path that ends below one is
 * refused with -EXDEV, read or written, like a write into another mount in a hook; the handle remembers that it happened,
 * since much of what reads configuration passes over a directory that cannot be opened.
 *
 * Covers are compared by where paths lead, links followed. The kernel answers that for what exists (the name that
 * /proc/self/fd shows of a descriptor); of a path that leads to nothing yet, a mount point that will be made perhaps, the
 * part that exists is resolved so, and the rest is taken as it is written.
 */
#define _GNU_SOURCE
#include "native.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { HOPS = 16 };

static int fd_path(int fd, char *into, size_t room)
{
    char link[40];

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, into, room);
    if (length < 0)
        return -errno;
    if ((size_t)length >= room)
        return -ENAMETOOLONG;
    into[length] = 0;
    return 0;
}

/* Where a descriptor is, as a path in the root; "" is the root itself. */
static int real_path(const struct root *root, int fd, char into[COVER_PATH])
{
    const struct covers *covers = root->covers;
    size_t base = strlen(covers->base);
    char path[2 * COVER_PATH];
    int rc = fd_path(fd, path, sizeof path);

    if (rc)
        return rc;
    if (strncmp(path, covers->base, base) || (path[base] && path[base] != '/'))
        return -EXDEV;
    if (strlen(path + base) >= COVER_PATH)
        return -ENAMETOOLONG;
    strcpy(into, path + base);
    return 0;
}

/* Puts head, a slash and tail together; a tail that is empty or begins with a slash gets none. */
static int put_together(char into[COVER_PATH], const char *head, const char *tail)
{
    char whole[COVER_PATH];
    int length = snprintf(whole, sizeof whole, "%s%s%s", head, *tail && *tail != '/' ? "/" : "", tail);

    if (length < 0 || length >= COVER_PATH)
        return -ENAMETOOLONG;
    strcpy(into, whole);
    return 0;
}

/* Replaces the link at PATH, which leads to nothing, by its text. 0: done; 1: there is no link. */
static int expand_link(const struct root *root, char path[COVER_PATH], const char *rest)
{
    char text[COVER_PATH], folder[COVER_PATH];
    cleanup_fd int fd = root_resolve(root, path, O_PATH | O_NOFOLLOW);
    ssize_t length = fd < 0 ? -1 : readlinkat(fd, "", text, sizeof text);

    if (length <= 0 || length >= COVER_PATH)
        return 1;
    text[length] = 0;
    int rc = put_together(text, text, rest);
    if (rc || *text == '/')
        return rc ? rc : put_together(path, text, "");
    strcpy(folder, path);
    *strrchr(folder, '/') = 0;
    cleanup_fd int parent = root_resolve(root, *folder ? folder : "/", O_PATH);
    rc = parent < 0 ? parent : real_path(root, parent, folder);
    return rc ? rc : put_together(path, folder, text);
}

/* One step towards where PATH leads. 0: it is in INTO; 1: path was changed, look again. */
static int locate_once(const struct root *root, char path[COVER_PATH], char into[COVER_PATH])
{
    char rest[COVER_PATH] = "";

    for (;;) {
        cleanup_fd int fd = root_resolve(root, *path ? path : "/", O_PATH);
        int rc = fd < 0 ? fd : real_path(root, fd, into);
        if (!rc)
            return put_together(into, into, rest);
        if (rc != -ENOENT)
            return rc;
        rc = expand_link(root, path, rest);
        if (rc != 1)
            return rc ? rc : 1;
        char *slash = strrchr(path, '/'), tail[COVER_PATH];
        if (!slash)
            return -ENOENT;
        rc = put_together(tail, slash, rest);
        if (rc)
            return rc;
        strcpy(rest, tail);
        *slash = 0;
    }
}

/* Where a path leads, whether or not there is something. */
static int locate(const struct root *root, const char *path, char into[COVER_PATH])
{
    char work[COVER_PATH];
    int rc = put_together(work, "", path);

    for (int hop = 0; !rc && hop < HOPS; hop++) {
        rc = locate_once(root, work, into);
        if (rc != 1)
            return !rc && strstr(into, "/..") ? -EXDEV : rc;
        rc = 0;
    }
    return rc ? rc : -ELOOP;
}

/* Whether a path lies below a directory; `itself`: or is that directory. */
static bool is_below(const char *path, const char *folder, bool itself)
{
    size_t length = strlen(folder);

    return !strncmp(path, folder, length) && (path[length] == '/' || (itself && !path[length]));
}

static int meet(struct covers *covers, const char *path)
{
    if (!covers->met)
        snprintf(covers->where, sizeof covers->where, "%s", *path ? path : "/");
    covers->met = true;
    return -EXDEV;
}

static int compare(const struct root *root, const char *real)
{
    for (size_t i = 0; i < root->covers->count; i++)
        if (is_below(real, root->covers->items[i].real, !root->covers->items[i].lent))
            return meet(root->covers, real);
    return 0;
}

/* Refuses what was opened by a path, or was not there, when it lies below a cover. */
int cover_check(const struct root *root, const char *path, int fd, bool follow)
{
    char real[COVER_PATH], folder[COVER_PATH];

    if (!root->covers)
        return 0;
    int rc;
    if (fd >= 0 && follow)
        rc = real_path(root, fd, real);
    else if (follow)
        rc = locate(root, path, real);
    else {
        const char *slash = strrchr(path, '/');
        int length = snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 0, path);
        rc = length >= COVER_PATH ? -ENAMETOOLONG : locate(root, folder, real);
        rc = rc ? rc : put_together(real, real, slash ? slash + 1 : path);
    }
    if (rc == -ELOOP || rc == -ENOTDIR || rc == -EACCES)
        return 0;  /* it leads nowhere in the container either */
    return rc ? meet(root->covers, path) : compare(root, real);
}

/* Refuses a name in an open directory when a cover lies over it. */
int cover_check_entry(const struct root *root, int folder, const char *name)
{
    char real[COVER_PATH];

    if (!root->covers)
        return 0;
    int rc = real_path(root, folder, real);
    rc = rc ? rc : put_together(real, real, name);
    return rc ? meet(root->covers, name) : compare(root, real);
}

/* Calls `matters` for what is to be mounted in a directory, with the way to it from there; notes one that matters. */
int cover_check_inside(const struct root *root, const char *path, bool (*matters)(const void *, const char *),
                       const void *context)
{
    char real[COVER_PATH];

    if (!root->covers)
        return 0;
    int rc = locate(root, path, real);
    if (rc)
        return rc == -ELOOP || rc == -ENOTDIR ? 0 : meet(root->covers, path);
    for (size_t i = 0; i < root->covers->count; i++) {
        const struct cover *cover = &root->covers->items[i];
        if (!cover->lent && is_below(cover->real, real, false) && matters(context, cover->real + strlen(real) + 1))
            return meet(root->covers, cover->real);
    }
    return 0;
}

/* Notes that a lent directory holds what cannot be seen from here. */
int cover_note(const struct root *root, const char *path)
{
    return root->covers ? meet(root->covers, path) : 0;
}

/* Lays covers over a root. They must live as long as the handle. */
int root_cover(struct root *root, struct covers *covers, struct fault *fault)
{
    covers->met = false;
    int rc = fd_path(root->fd, covers->base, sizeof covers->base);
    if (rc)
        return fault_set(fault, -rc, "cannot tell where the root is");
    for (size_t i = 0; i < covers->count; i++) {
        struct cover *cover = &covers->items[i];
        root->covers = covers;
        rc = locate(root, cover->path, cover->real);
        root->covers = NULL;
        if (rc)
            return fault_set(fault, -rc, "cannot tell where the mount at %s will be", cover->path);
    }
    root->covers = covers;
    return 0;
}

/* What a piece of work that may have met a cover comes to. */
int cover_verdict(const struct root *root, int rc, struct fault *fault)
{
    if (!root->covers || !root->covers->met)
        return rc;
    return fault_say(fault, EXDEV, "what lies at %s will be covered by a mount", root->covers->where);
}
