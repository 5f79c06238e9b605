/*
 * What will be mounted over a root: places whose contents in the tree are not what the container will see.
 *
 * A hook runs when everything is mounted, and looks into a volume where one is mounted. When a hook's work is done before
 * the container is made, only the tree is there. So each mount of the container is a cover, and a path that leads below
 * one, at any component on its way, is refused with -EXDEV, read or written, like a write into another mount in a hook. The
 * handle remembers that it happened, since much of what reads configuration goes on without a directory that cannot be
 * opened.
 *
 * The container's programs go a path component by component, and so does walk() here: a link that lies in a covered
 * directory will not be there, wherever it leads in the tree. The mounts themselves are made one after the other, so the
 * way to a mount point leads through the mounts that come before it.
 */
#define _GNU_SOURCE
#include "root.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { LINKS = 40 }; /* as many as the kernel follows */

/* Whether a path lies below a directory; `itself`: or is that directory. */
static bool is_below(const char *path, const char *folder, bool itself)
{
    size_t length = strlen(folder);

    return !strncmp(path, folder, length) && (path[length] == '/' || (itself && !path[length]));
}

/* The last of the first COUNT covers that lies nearest above a path without links, or at it; NULL: none. */
static const struct cover *cover_over(const struct covers *covers, size_t count, const char *path)
{
    const struct cover *found = NULL;

    for (size_t i = 0; i < count; i++) {
        const struct cover *cover = &covers->items[i];
        if (is_below(path, cover->real, true) && (!found || strlen(cover->real) >= strlen(found->real)))
            found = cover;
    }
    return found;
}

/* ---- the way of a path ---- */

struct walk {
    char here[COVER_PATH];     /* where the walk is: no links, "" is the root */
    char rest[2 * COVER_PATH]; /* what is still to go */
    unsigned links;
    bool missing; /* the tree ends before the path does: the rest is taken as it is written */
};

/* Takes the next component from the rest; 0 at the end. *last: it is the path's last one. */
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
    if (length <= 0) /* ENOENT is the answer for what is no link */
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

/* Goes up one directory. What is missing has no `..`. */
static int go_up(struct walk *walk)
{
    char *slash = strrchr(walk->here, '/');

    if (slash)
        *slash = 0;
    return walk->missing ? -EXDEV : 0;
}

/*
 * Goes one component on. 1: there is more to go; 0: the walk is at its end, or at one of the first COUNT covers with
 * something left to go (*cover).
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
 * Goes the way of a path. FOLLOW: also a link at its end. Afterwards walk->here is where it leads, or the first place at
 * or below a cover (*cover, else NULL), with walk->rest to go from there.
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

/* Goes the rest of the way below a cover, as it is written; returns the cover over its end, one of the first COUNT. */
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
 * Finds where a path leads; -EXDEV, and noted, below a cover; 1: nowhere, in the container neither. BELOW_LENT: it may also
 * lead below a lent directory, which itself may always be listed.
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
 * Finds a mount point. Below an earlier mount the contents of that decide where it lies, and a link there would lead
 * elsewhere: from here only a path without links can be resolved.
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
