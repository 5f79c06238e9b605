/*
 * rootpath.c, root.c, rootwrite.c, rootdev.c, cover.c: the handle through which a container's root is read and changed.
 *
 * Paths are those of the container, absolute or relative to the root, and resolved below it by openat2. All functions
 * that take a path return -ETIMEDOUT after the deadline; all but root_resolve return -EXDEV for what will be covered by
 * a mount. Other errors are those of the system calls.
 */
#pragma once

#include "fault.h"

#include <sys/stat.h>

/* cffi: begin */

struct root {
    int fd;         /* the root directory; the only descriptor that paths start from */
    bool one_mount; /* writes stay on the mount of the root itself: never into a volume or a host directory */
    bool own_dev;   /* but the container's own /dev, a tmpfs that is mounted there alone, may be written, too */
    bool sync;      /* fsync what is written */
    uid_t uid;      /* owner of new files, or ROOT_NOBODY: the user of this process */
    gid_t gid;
    int64_t deadline;      /* CLOCK_MONOTONIC nanoseconds after which every function fails with -ETIMEDOUT, 0: none */
    struct covers *covers; /* future mounts over the tree, NULL: none */
};

/*
 * Opens the directory PATH, a path of the host, as a root.
 * -EPERM: it is the system's own root (by device and inode, so also a bind mount of it); -ELOOP, -ENOTDIR: its last
 * component is a link, or no directory; -ENOSYS: the kernel has no openat2. FAULT gets the text.
 */
int root_open(struct root *root, const char *path, struct fault *fault);

/* Closes the handle, which must not be used any more. */
void root_close(struct root *root);

/* Sets the deadline, in milliseconds from now. */
void root_limit(struct root *root, unsigned milliseconds);

/* Whether the root is empty, as for a virtual machine with a root of its own. */
bool root_empty(const struct root *root);

enum { COVER_PATH = 2048 };

struct cover {
    const char *path;      /* the mount point, in the root */
    const char *source;    /* the mounted path, on the host; NULL: a file system without links, such as tmpfs */
    bool lent;             /* a struct ld_source: it may be listed, but files below it are not seen from here */
    char real[COVER_PATH]; /* filled by root_cover: the resolved mount point */
};

struct covers {
    struct cover *items;
    size_t count;
    bool met;               /* a path below a cover was used */
    char where[COVER_PATH]; /* the first such path */
};

/*
 * Sets the covers of a root, for the container's future mounts in their order. They must live as long as the handle.
 * Fails, with FAULT, if a mount point cannot be determined.
 */
int root_cover(struct root *root, struct covers *covers, struct fault *fault);

/* cffi: end */

#define ROOT_NOBODY ((uid_t) - 1)

/* -ETIMEDOUT after the deadline, else 0. */
int root_late(const struct root *root);

/* --- opening: each returns a descriptor ------------------------------------------------------------------------------ */

/* openat2 from an open directory; flags and RESOLVE as there. -EAGAIN: directories on the way are renamed repeatedly. */
int root_openat2(int from, const char *path, int flags, uint64_t resolve);

/* The same below the root, without regard to covers. */
int root_resolve(const struct root *root, const char *path, int flags);

/* The same with regard to covers; RESOLVE: more flags. */
int root_at(const struct root *root, const char *path, int flags, uint64_t resolve);

/* A directory, to list it. *foreign: a mount point lies on the way to it. */
int root_directory(const struct root *root, const char *path, bool *foreign);

/* A regular file to read, on whatever mount: a library. Errors as of root_config; *st is set for -EISDIR, -EINVAL. */
int root_regular(const struct root *root, const char *path, struct stat *st);

/*
 * A configuration file: a regular file on the root's own mount, reached without leaving that mount.
 * follow: a link at the path's end is followed, for files that are only obeyed; a file that is copied or replaced must
 * have this name itself.
 * -EXDEV: it is on another mount; -ELOOP: a link that is not followed; -EISDIR: a directory; -EINVAL: another file that
 * is not a regular file.
 */
int root_config(const struct root *root, const char *path, bool follow, struct stat *st);

/* A path below an open directory of the host, with no link on the way. */
int root_below(int directory, const char *path, int flags);

/*
 * A regular file NAME of an open directory, to read; a link is not followed.
 * foreign: the directory is on another mount than the root. *mounted, which may be NULL: a mount lies over the name.
 * Errors as of root_config.
 */
int root_entry(int directory, const char *name, bool foreign, struct stat *st, bool *mounted);

/* The parent directory of PATH; *base points to the last component. -EINVAL: the path ends in "." or "..". */
int root_parent(const struct root *root, const char *path, const char **base);

/* --- reading --------------------------------------------------------------------------------------------------------- */

/* stat and lstat of a path. */
int root_stat(const struct root *root, const char *path, struct stat *st);
int root_lstat(const struct root *root, const char *path, struct stat *st);

/* Reads an open regular file whole and returns its length. -EFBIG: it does not fit into ROOM bytes. */
ssize_t root_read(const struct root *root, int fd, char *into, size_t room);

/* Whether PATH itself, not the target of a link there, is a configuration file with these bytes. */
bool root_holds(const struct root *root, const char *path, const void *data, size_t size);

/* --- writing: with `one_mount` -EXDEV for a path on another mount ------------------------------------------------------- */

/*
 * A directory in the container's own /dev, for which no link is followed.
 * -EXDEV: the path is not below /dev, or what is mounted there is not a tmpfs of this container alone.
 */
int root_own_dev(const struct root *root, const char *path);

/* mkdir -p: existing directories, also behind links, are used unchanged. MODE: of new directories. */
int root_mkdir(const struct root *root, const char *path, mode_t mode);

/* The same for the parent directory of PATH. */
int root_mkdir_parent(const struct root *root, const char *path, mode_t mode);

/* Makes PATH a regular file with these bytes and this mode; whatever is there is replaced, except a directory. */
int root_replace(const struct root *root, const char *path, const void *data, size_t size, mode_t mode);

/* Makes PATH a link with the text TARGET; whatever is there is replaced, except a directory. */
int root_link(const struct root *root, const char *path, const char *target);

/* The same for NAME in an open directory. */
int root_link_at(const struct root *root, int directory, const char *name, const char *target);

/* The same for a new name. -EEXIST: the name exists. */
int root_link_new(const struct root *root, int directory, const char *name, const char *target);

/* Removes a file that is not a directory. */
int root_unlink(const struct root *root, const char *path);

/* --- covers: 0, or -EXDEV for a path that will be covered, which the handle notes --------------------------------------- */

/* Checks a path. FOLLOW: a link at its end is followed. */
int cover_check(const struct root *root, const char *path, bool follow);

/*
 * Checks the mount points inside a directory.
 * matters: whether a mount point matters, by its path from the directory on. context: its first argument.
 */
int cover_check_inside(const struct root *root, const char *path, bool (*matters)(const void *, const char *),
                       const void *context);

/* Notes that a lent directory, at PATH, has files that cannot be seen from here. */
int cover_note(const struct root *root, const char *path);

/* The result of work that returned RC: -EXDEV, and FAULT, when a path was covered, else RC. */
int cover_verdict(const struct root *root, int rc, struct fault *fault);
