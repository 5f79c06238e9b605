/*
 * The rules of all our C, and the declarations that each file needs. Headers by subject:
 *
 *     native/  call.h (command lines), options.h (inside their parser), scan.h (requests), places.h (identity, our
 *              directories), lowlevel.h (the runtime to execute), report.h (error lines), fault.h (errors with a text),
 *              arena.h (memory), json.h, newcalls.h (system calls); of repeated creates: jsontree.h (the text of a config.json), question.h,
 *              answer.h, insert.h, splices.h (inside insert.c), template.h, ownfiles.h, record.h, repeat.h, execenv.h, updaterules.h;
 *              of the launcher alone: commands.h, execute.h, python.h; of Python alone: idmap.h
 *     hooks/   root.h (a container's root), elffile.h, ldcache.h (public), ldwork.h (inside the cache's files), hook.h
 *
 * Errors. A function that can fail returns a negative errno value (-ENOENT); zero or more is success. On failure the
 * caller's arguments are unchanged, unless the header names an exception. Only the launcher's own files and hook.c
 * print or exit; errno is never read after a call of our own functions. The texts for errno values are those of
 * problem() in report.h.
 *
 * Memory. Callers provide the memory, and every returned const char * points into the caller's arguments. Only the
 * hooks' larger work allocates, from an arena that is freed at once. File descriptors are opened with O_CLOEXEC and
 * closed by `cleanup_fd`.
 *
 * Two builds. The same files are linked into the static launcher and into the Python module shim.hooks._core. The part
 * of a header between the lines "cffi: begin" and "cffi: end" is declared to Python: native/build_core.py passes it to
 * cffi, which accepts declarations, enumerations and comments there, but no #define, no attributes and no function
 * bodies.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* Closes a descriptor; negative values are ignored. */
static inline void close_fd(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

/* An int variable with this attribute is a descriptor that is closed when it goes out of scope. */
#define cleanup_fd __attribute__((cleanup(close_fd)))

/* The part of a path after its last slash. */
static inline const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
