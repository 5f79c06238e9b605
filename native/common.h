/*
 * The rules of all our C, and what each file of it needs. Headers go by subject:
 *
 *     native/  call.h (command lines), options.h (inside their parser), scan.h (requests), places.h (identity, our
 *              directories), lowlevel.h (the runtime to execute), report.h (error lines), fault.h (errors with a text),
 *              arena.h (memory), json.h; of repeated creates: jsontree.h (the text of a config.json), question.h,
 *              answer.h, insert.h, splices.h (inside insert.c), template.h, ownfiles.h, repeat.h, execenv.h; of the
 *              launcher alone: commands.h, execute.h, python.h; of Python alone: idmap.h
 *     hooks/   root.h (a container's root), elffile.h, ldcache.h (public), ldwork.h (inside the cache's files), hook.h
 *
 * Errors. A function that can fail returns a negative errno value (-ENOENT); zero or more is success. On failure nothing
 * that the caller passed in has changed, unless its header names an exception. Only the launcher's own files and hook.c print
 * or exit; errno is never read across a call of ours. The words for an errno value are those of problem() in report.h.
 *
 * Memory. Callers bring the memory, and every const char * that is returned points into what the caller passed in. Only the
 * hooks' larger work allocates, from an arena that is freed at once. File descriptors are O_CLOEXEC from the start and
 * closed by `cleanup_fd`.
 *
 * Two builds. The same files are linked into the static launcher and into the Python module shim.hooks._core. What a header
 * has between the lines "cffi: begin" and "cffi: end" is declared to Python: native/build_core.py hands it to cffi, which
 * takes declarations, enumerations and comments there, but neither #define, nor attributes, nor function bodies.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* Closes a descriptor; a negative one is none. */
static inline void close_fd(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

/* An int variable with this attribute is a descriptor that is closed when it goes out of scope. */
#define cleanup_fd __attribute__((cleanup(close_fd)))

/* What follows the last slash of a path. */
static inline const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
