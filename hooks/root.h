/*
 * rootpath.c, root.c, rootwrite.c, cover.c: the handle through which a container's root is read and changed.
 *
 * Paths are those of the container, absolute or relative to the root, and resolved below it by openat2. All functions
 * that take a path return -ETIMEDOUT after the deadline; all but root_resolve return -EXDEV for what will be covered by a
 * mount. Other errors are those of the system calls.
 */
#pragma once

#include "fault.h"

#include <sys/stat.h>

/* cffi: begin */

struct root {
    int fd;         /* the root directory; the only descriptor that paths start from */
    bool one_mount; /* writes stay on the mount of the root itself: never into a volume or a host directory */
    bool sync;      /* fsync what is written */
    uid_t uid;      /* owner of what is made, or ROOT_NOBODY: the user of this process */
    gid_t gid;
    int64_t deadline;      /* CLOCK_MONOTONIC nanoseconds after which every function fails with -ETIMEDOUT, 0: none */
    struct covers *covers; /* what will be mounted over the tree, NULL: it is all there */
};

/*
 * Opens the directory PATH, a path of the host, as a root.
 * -EPERM: it is the system's own root (by device and inode, so also a bind mount of it); -ELOOP, -ENOTDIR: its last
 * component is a link, or no directory; -ENOSYS: the kernel has no openat2. FAULT gets the text.
 */
int root_open(struct root *root, const char *path, struct fault *fault);

/* Closes it; the handle is none then. */
void root_close(struct root *root);

/* Sets the deadline: so many milliseconds from now. */
void root_limit(struct root *root, unsigned milliseconds);

/* Whether nothing is in the root: where a virtual machine brings its own. */
bool root_empty(const struct root *root);

enum { COVER_PATH = 2048 };

struct cover {
    const char *path;      /* the mount point, in the root */
    const char *source;    /* what is mounted, on the host; NULL: a file system without links, such as tmpfs */
    bool lent;             /* a struct ld_source: it may be listed, but what is below is not seen from here */
    char real[COVER_PATH]; /* filled by root_cover: where the path leads */
};

struct covers {
    struct cover *items;
    size_t count;
    bool met;               /* something below a cover was wanted */
    char where[COVER_PATH]; /* the first of these */
};

/*
 * Lays covers over a root, what the container's mounts will hide, in the order in which they will be mounted. They must live
 * as long as the handle.
 * Fails, with FAULT, where it cannot be known where a mount will be.
 */
int root_cover(struct root *root, struct covers *covers, struct fault *fault);

/* cffi: end */

#define ROOT_NOBODY ((uid_t) - 1)

/* -ETIMEDOUT after the deadline, else 0. */
int root_late(const struct root *root);

/* --- opening: each returns a descriptor ------------------------------------------------------------------------------ */

/* openat2 from an open directory; flags and RESOLVE as there. -EAGAIN: directories on the way were renamed all the time. */
int root_openat2(int from, const char *path, int flags, uint64_t resolve);

/* The same below the root, whatever will be mounted over the path. */
int root_resolve(const struct root *root, const char *path, int flags);

/* The same where covers count; RESOLVE: more flags. */
int root_at(const struct root *root, const char *path, int flags, uint64_t resolve);

/* A directory, to list it. *foreign: a mount point lies on the way to it. */
int root_directory(const struct root *root, const char *path, bool *foreign);

/* A regular file to read, on whatever mount: a library. Errors as of root_config; *st is set for -EISDIR, -EINVAL. */
int root_regular(const struct root *root, const char *path, struct stat *st);

/*
 * A configuration file: a regular file on the root's own mount, reached without leaving that mount.
 * follow: a link at the path's end is followed, for what is only obeyed; what is copied or replaced is the file of this
 * name itself.
 * -EXDEV: it is on another mount; -ELOOP: a link that is not followed; -EISDIR: a directory; -EINVAL: anything else that
 * is no regular file.
 */
int root_config(const struct root *root, const char *path, bool follow, struct stat *st);

/* What lies below an open directory of the host, with no link on the way. */
int root_below(int directory, const char *path, int flags);

/*
 * A regular file NAME of an open directory, to read; a link is not followed.
 * foreign: the directory is on another mount than the root. *mounted, which may be NULL: something is mounted over the name.
 * Errors as of root_config.
 */
int root_entry(int directory, const char *name, bool foreign, struct stat *st, bool *mounted);

/* The directory that holds the last component of PATH, to which *base points then. -EINVAL: the path ends in "." or "..". */
int root_parent(const struct root *root, const char *path, const char **base);

/* --- reading --------------------------------------------------------------------------------------------------------- */

/* stat and lstat of a path. */
int root_stat(const struct root *root, const char *path, struct stat *st);
int root_lstat(const struct root *root, const char *path, struct stat *st);

/* Reads an open regular file whole and returns its length. -EFBIG: it does not fit into ROOM bytes. */
ssize_t root_read(const struct root *root, int fd, char *into, size_t room);

/* Whether PATH itself, not what a link there leads to, is a configuration file with these bytes. */
bool root_holds(const struct root *root, const char *path, const void *data, size_t size);

/* --- writing: with `one_mount` -EXDEV for what is on another mount ------------------------------------------------------ */

/* mkdir -p: directories that exist, also behind links, are used as they are. MODE: of those that are made. */
int root_mkdir(const struct root *root, const char *path, mode_t mode);

/* The same for the directory that is to hold PATH. */
int root_mkdir_parent(const struct root *root, const char *path, mode_t mode);

/* Makes PATH a regular file with these bytes and this mode, whatever it was before, a directory excepted. */
int root_replace(const struct root *root, const char *path, const void *data, size_t size, mode_t mode);

/* Makes PATH a link with the text TARGET; what is there already is replaced, a directory excepted. */
int root_link(const struct root *root, const char *path, const char *target);

/* The same for NAME in an open directory. */
int root_link_at(const struct root *root, int directory, const char *name, const char *target);

/* The same for a name that is new. -EEXIST: the name is taken. */
int root_link_new(const struct root *root, int directory, const char *name, const char *target);

/* Removes what is no directory. */
int root_unlink(const struct root *root, const char *path);

/* --- covers: 0, or -EXDEV for what will be covered, which the handle remembers ------------------------------------------ */

/* Checks a path. FOLLOW: a link at its end is followed. */
int cover_check(const struct root *root, const char *path, bool follow);

/*
 * Checks the mount points inside a directory.
 * matters: whether one is of interest, by its path from the directory on. context: its first argument.
 */
int cover_check_inside(const struct root *root, const char *path, bool (*matters)(const void *, const char *),
                       const void *context);

/* Remembers that a lent directory, at PATH, holds what cannot be seen from here. */
int cover_note(const struct root *root, const char *path);

/* The result of work that returned RC: -EXDEV, and FAULT, when something was covered, else RC. */
int cover_verdict(const struct root *root, int rc, struct fault *fault);
