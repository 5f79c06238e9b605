/*
 * Covers: the mounts of a container over its root, below which the tree's contents are not what the container will see.
 *
 * A hook runs when everything is mounted, and sees the contents of volumes. When a hook's work is done before the
 * container is created, only the tree exists. So each mount of the container is a cover, and a path that leads below a
 * cover, at any component, is refused with -EXDEV, read or written, like a write into another mount in a hook. The
 * handle notes the refusal, since most readers of configuration continue without a directory that cannot be opened.
 *
 * walk() follows a path component by component, as the kernel does for the container's programs: a link in a covered
 * directory will not exist for them, wherever it leads in the tree. Mounts are made in their order, so the path to a
 * mount point leads through the mounts before it.
 */
#define _GNU_SOURCE
#include "root.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { LINKS = 40 }; /* as many as the kernel follows */

/* Whether a path lies below a directory; with `itself` also whether it is that directory. */
static bool is_below(const char *path, const char *folder, bool itself)
{
    size_t length = strlen(folder);

    return !strncmp(path, folder, length) && (path[length] == '/' || (itself && !path[length]));
}

/* Of the first COUNT covers the nearest at or above a path without links, of equal ones the last; NULL: none. */
static const struct cover *cover_over(const struct covers *covers, size_t count, const char *path)
{
    const struct cover *nearest = NULL;

    for (size_t i = 0; i < count; i++) {
        const struct cover *cover = &covers->items[i];
        if (is_below(path, cover->real, true) && (!nearest || strlen(cover->real) >= strlen(nearest->real)))
            nearest = cover;
    }
    return nearest;
}

/* ---- following a path ---- */

struct walk {
    char here[COVER_PATH];     /* where the walk is: no links, "" is the root */
    char rest[2 * COVER_PATH]; /* what is still to go */
    unsigned links;
    bool missing; /* the tree ends before the path does: the rest is followed by its text */
};

/* Takes the next component from the rest; 0 at the end. *last: it is the path's last component. */
static size_t next_component(struct walk *walk, char name[COVER_PATH], bool *last)
{
    char *from = walk->rest + strspn(walk->rest, "/");
    size_t length = strcspn(from, "/");

    if (length >= COVER_PATH)
        return 0;
    memcpy(name, from, length);
    name[length] = 0;
    from += length;
    *last = !from[strspn(from, "/")];
    memmove(walk->rest, from, strlen(from) + 1);
    return length;
}

/* Follows the link at the path WHERE. 1: done, the rest begins with its text; 0: it is no link, or missing. */
static int take_link(const struct root *root, struct walk *walk, const char *where)
{
    char text[COVER_PATH], rest[sizeof walk->rest];
    cleanup_fd int fd = root_resolve(root, where, O_PATH | O_NOFOLLOW);
    ssize_t length = fd < 0 ? -1 : readlinkat(fd, "", text, sizeof text);

    walk->missing = fd == -ENOENT;
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    if (length <= 0) /* ENOENT also for a file that is not a link */
        return 0;
    if (++walk->links > LINKS)
        return -ELOOP;
    int size = snprintf(rest, sizeof rest, "%.*s/%s", (int)length, text, walk->rest);
    if (length == sizeof text || size >= (int)sizeof rest)
        return -ENAMETOOLONG;
    memcpy(walk->rest, rest, (size_t)size + 1);
    if (*text == '/')
        *walk->here = 0;
    return 1;
}

/* Goes up one directory. A missing directory has no `..`. */
static int go_up(struct walk *walk)
{
    char *slash = strrchr(walk->here, '/');

    if (slash)
        *slash = 0;
    return walk->missing ? -EXDEV : 0;
}

/*
 * Follows the next component. 1: there are more components; 0: the walk is at its end, or at one of the first COUNT
 * covers with components left (*cover).
 */
static int step(const struct root *root, struct walk *walk, bool follow, size_t count, const struct cover **cover)
{
    char name[COVER_PATH], where[COVER_PATH];
    bool last;
    size_t length = next_component(walk, name, &last);

    if (!length)
        return *walk->rest ? -ENAMETOOLONG : 0;
    if (!strcmp(name, "."))
        return 1;
    if (!strcmp(name, ".."))
        return go_up(walk) ? -EXDEV : 1;
    if (snprintf(where, sizeof where, "%s/%s", walk->here, name) >= (int)sizeof where)
        return -ENAMETOOLONG;
    *cover = cover_over(root->covers, count, where);
    if (!*cover && !walk->missing && (follow || !last)) {
        int rc = take_link(root, walk, where);
        if (rc)
            return rc;
    }
    memcpy(walk->here, where, sizeof where);
    return !*cover;
}

/*
 * Follows a path. FOLLOW: also a link at its end. Afterwards walk->here is the directory or file it leads to, or the
 * first directory at or below a cover (*cover, else NULL), with the remaining components in walk->rest.
 */
static int go(const struct root *root, const char *path, bool follow, size_t count, struct walk *walk,
              const struct cover **cover)
{
    int rc = 1;

    *walk = (struct walk){0};
    *cover = NULL;
    if (strlen(path) >= COVER_PATH)
        return -ENAMETOOLONG;
    strcpy(walk->rest, path);
    while (rc == 1)
        rc = root_late(root) ? root_late(root) : step(root, walk, follow, count, cover);
    return rc;
}

/* Follows the rest of the path below a cover by its text; returns the cover over its end, of the first COUNT. */
static int go_below(const struct root *root, size_t count, struct walk *walk, const struct cover **cover)
{
    const struct cover *none = NULL;
    int rc = 1;

    walk->missing = true;
    while (rc == 1)
        rc = step(root, walk, false, 0, &none);
    *cover = cover_over(root->covers, count, walk->here);
    return rc;
}

/* ---- paths that are read or written ---- */

static int meet(struct covers *covers, const char *path)
{
    if (!covers->met)
        snprintf(covers->where, sizeof covers->where, "%s", *path ? path : "/");
    covers->met = true;
    return -EXDEV;
}

/*
 * Finds where a path leads; -EXDEV, and noted in the handle, below a cover; 1: nowhere, nor in the container.
 * BELOW_LENT: it may also lead below a lent directory, which itself may always be listed.
 */
static int find_place(const struct root *root, const char *path, bool follow, bool below_lent, struct walk *walk)
{
    struct covers *covers = root->covers;
    const struct cover *cover;
    int rc = go(root, path, follow, covers->count, walk, &cover);

    if (!rc && cover && cover->lent)
        rc = go_below(root, covers->count, walk, &cover);
    if (rc == -ELOOP || rc == -ENOTDIR || rc == -EACCES)
        return 1;
    if (rc == -ETIMEDOUT)
        return rc;
    if (rc)
        return meet(covers, path);
    return !cover || (cover->lent && (below_lent || !strcmp(walk->here, cover->real))) ? 0 : meet(covers, walk->here);
}

int cover_check(const struct root *root, const char *path, bool follow)
{
    struct walk walk;
    int rc = root->covers ? find_place(root, path, follow, false, &walk) : 0;

    return rc < 0 ? rc : 0;
}

int cover_check_inside(const struct root *root, const char *path, bool (*matters)(const void *, const char *),
                       const void *context)
{
    struct walk walk;
    int rc = root->covers ? find_place(root, path, true, true, &walk) : 1;

    if (rc)
        return rc < 0 ? rc : 0;
    for (size_t i = 0; i < root->covers->count; i++) {
        const struct cover *cover = &root->covers->items[i];
        if (!cover->lent && is_below(cover->real, walk.here, false) &&
            matters(context, cover->real + strlen(walk.here) + 1))
            return meet(root->covers, cover->real);
    }
    return 0;
}

int cover_note(const struct root *root, const char *path)
{
    return root->covers ? meet(root->covers, path) : 0;
}

/* ---- the covers ---- */

/*
 * Finds a mount point. Below an earlier mount it depends on the contents of that mount, where a link could lead
 * elsewhere: there only a path without links can be resolved.
 */
static int find_point(const struct root *root, size_t number)
{
    struct cover *point = &root->covers->items[number];
    const struct cover *over;
    struct walk walk;
    int rc = go(root, point->path, true, number, &walk, &over);

    if (!rc && over)
        rc = go_below(root, number, &walk, &over);
    memcpy(point->real, walk.here, sizeof point->real);
    const char *below = over ? point->real + strlen(over->real) : "";
    if (rc || !over || !over->source || !*below)
        return rc;
    cleanup_fd int folder = open(over->source, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return -errno;
    cleanup_fd int fd = root_below(folder, below + 1, O_PATH);
    return fd >= 0 || fd == -ENOENT ? 0 : fd;
}

int root_cover(struct root *root, struct covers *covers, struct fault *fault)
{
    covers->met = false;
    root->covers = covers;
    for (size_t i = 0; i < covers->count; i++) {
        int rc = find_point(root, i);
        if (rc) {
            root->covers = NULL;
            return fault_set(fault, -rc, "cannot tell where the mount at %s will be", covers->items[i].path);
        }
    }
    return 0;
}

int cover_verdict(const struct root *root, int rc, struct fault *fault)
{
    if (!root->covers || !root->covers->met)
        return rc;
    return fault_say(fault, EXDEV, "what lies at %s will be covered by a mount", root->covers->where);
}
