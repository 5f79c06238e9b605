/* ldcache.c: the ld.so.cache of a root; its head names the other files. */
#pragma once

#include "fault.h"
#include "root.h"

/* The drop-ins of our hooks, in the order of their names, which is the order of the search. */
#define LD_COMPAT_DROP_IN "/etc/ld.so.conf.d/00-cdi-compat.conf"
#define LD_FOLDERS_DROP_IN "/etc/ld.so.conf.d/00-cdi-shim.conf"

/* cffi: begin */

/* A file or directory of the host that will be mounted into the root. */
struct ld_source {
    const char *path;   /* mount point, in the root */
    const char *source; /* path on the host; trusted, as it comes from a spec */
    dev_t dev;          /* the mount point, filled by ldcache.c */
    ino_t ino;
};

struct ld_options {
    const char *const *folders; /* absolute paths in the root, written to the drop-in */
    size_t folder_count;
    struct ld_source *sources; /* files and directories that will be mounted when the container runs */
    size_t source_count;
    const char *generator; /* imitate the ldconfig with this text in its caches, NULL: that of the root's libc */
    bool keep_links;       /* maintain no soname links, like ldconfig -X */
    bool settle;           /* as if run twice, so that links through new soname links are seen */
    bool replace_empty;    /* beside injected libraries replace an empty file by a soname link, see ldlinks.c */
    bool links_only;       /* make the soname links of the folders, and no cache */
    int elsewhere;    /* > 0: descriptor for the cache, when the root cannot be written; the root stays unchanged */
    unsigned threads; /* number of threads that read files, 0: by the number of processors */
};

struct ld_report {
    unsigned entries, links_made, links_removed, links_refused;
    bool written;
    char generator[160];
    struct fault remark; /* a fault that did not stop the work; code 0: none */
};

/*
 * Updates the cache and the soname links of a root, as the ldconfig of its own libc does.
 * report: is filled. On failure FAULT gets the text, and the cache is unchanged; some links may have been made, as by
 * an ldconfig that was interrupted.
 * -EINVAL: a folder or the generator is not valid; -E2BIG: the root exceeds a limit; -EXDEV: a path will be covered by
 * a mount; -EROFS and others of writing.
 */
int ld_update(const struct root *root, const struct ld_options *options, struct ld_report *report, struct fault *fault);

/* Whether a file name matches a component of a pattern of an include line in ld.so.conf. */
bool ld_glob(const char *pattern, const char *name);

/* cffi: end */
