/* lowlevel.c: which low-level runtime a launcher executes. */
#pragma once

#include "common.h"

#include <limits.h>

#define LOW_LEVEL_LINKS "/etc/shim/low-level"

/* cffi: begin */

extern const char *const low_level_links; /* LOW_LEVEL_LINKS */

/* The directories in which runtimes lie, whatever PATH has: podman sets no PATH at all. */
enum { PROGRAM_DIRECTORIES = 6 };
extern const char *const program_directories[PROGRAM_DIRECTORIES];

enum low_level_answer {
    LOW_LEVEL_FOUND,
    LOW_LEVEL_MISSING,  /* there is no link, or no program */
    LOW_LEVEL_NO_LINK,  /* the path of the link is not a link */
    LOW_LEVEL_RELATIVE, /* the link does not lead to an absolute path */
    LOW_LEVEL_SELF,     /* the link leads to the launcher */
};

enum { LOW_LEVEL_PATH = 4096 }; /* PATH_MAX */

struct low_level {
    char path[LOW_LEVEL_PATH];   /* the runtime, or the target of a wrong link */
    char link[LOW_LEVEL_PATH];   /* the link that was read */
    char own[LOW_LEVEL_PATH];    /* path of the launcher, if the search met it; else "" */
    char wanted[LOW_LEVEL_PATH]; /* after a search without result: the names */
    const char *root, *name;
    dev_t dev; /* of the launcher's file, which the search skips */
    ino_t ino;
};

/*
 * Begins a search for the low-level runtime of a launcher.
 * root: "" for the machine's own files, else the directory before each path; it must live as long as `low`.
 * name: last part of the launcher's argv[0]; likewise.
 * launcher: a path that leads to its file, the root included.
 */
void low_level_begin(struct low_level *low, const char *root, const char *name, const char *launcher);

/*
 * Reads the link for the launcher's name. Whether the program exists and can be executed is not checked.
 * `link` and, where there is one, `path` are filled.
 */
enum low_level_answer low_level_by_link(struct low_level *low);

/*
 * Searches without a link: `path`, or `own` and `wanted` are filled.
 * path: PATH of the process that calls the launcher, or NULL.
 */
enum low_level_answer low_level_by_search(struct low_level *low, const char *path);

/* cffi: end */

_Static_assert(LOW_LEVEL_PATH == PATH_MAX, "a path of the kernel's has that length at most");
