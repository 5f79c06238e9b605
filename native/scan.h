/* scan.c, needles.c: could a config.json hold a request? */
#pragma once

#include "common.h"

/* cffi: begin */

/* A text that every request of a source has; not empty, and without a NUL. */
struct needle {
    const char *text;
    size_t size;
};

/* The needles of the built-in sources; the first is that of annotations, the only source without a configuration. */
enum { BUILT_IN_NEEDLES = 4 };
extern const struct needle built_in_needles[BUILT_IN_NEEDLES];

/* Whether the SIZE bytes of a config.json could hold a request that has one of COUNT needles. Errs only towards true. */
bool asks(const char *text, size_t size, const struct needle *needles, size_t count);

/*
 * Whether they could hold a key that nearly is a request (near_requests in shim/create/annotation_requests.py): a
 * needle that ends in a slash, which is a prefix of annotation keys, without that slash and in letters of any case. Of
 * ASCII, as characters and not as escapes: no container goes without its device for what is missed, it lacks a warning.
 */
bool nearly_asks(const char *text, size_t size, const struct needle *needles, size_t count);

enum { MAX_NEEDLES = 256 };

/* Needles, and the bytes that they point into. */
struct needle_file {
    char text[(64 << 10) + 1]; /* a byte more than the limit of the file */
    struct needle needles[MAX_NEEDLES + BUILT_IN_NEEDLES];
    size_t count;
    bool enforces;   /* grants are enforced: Python judges a config.json that may have hardware (hardware.h) */
    bool is_current; /* false: the texts of requests are unknown, and these are only likely */
};

/*
 * Fills in the needles of the configuration that counts here, which the environment decides. Where no valid file has
 * them: those of every built-in source, and those of the configuration that counted last in this boot, if a file still
 * has them.
 */
void find_needles(struct needle_file *file);

/*
 * Reads the file NAME of a directory. Returns the number of needles. -EPERM: file or directory is not ours; -EINVAL: it
 * is not a file of needles; -E2BIG: it is longer than such a file may be; others of open(2) and read(2).
 */
int read_needles(const char *directory, const char *name, struct needle_file *file);

/* cffi: end */

/*
 * The same for the text of a file, which is changed.
 * needles, room: receive the needles. *is_current: every input of the file is unchanged. *enforces: grants are enforced.
 * Returns their number. -EINVAL: it is not the text of a file of needles; -E2BIG: there are more than ROOM.
 */
int parse_needles(char *text, size_t size, struct needle *needles, size_t room, bool *is_current, bool *enforces);
