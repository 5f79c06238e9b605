/*
 * The one header of all our C.
 *
 * The error rule. A function that can fail returns a negative errno value (-ENOENT); zero or more is success. On
 * failure nothing that the caller passed in has changed. Nothing here prints or exits except launcher.c, which
 * owns the process; errno itself is never read across a call of ours. Texts for people are made in one place:
 * problem() in report.c.
 *
 * Memory. Nothing allocates: the caller brings the room, and every const char * that is handed back points into
 * what the caller passed in. File descriptors are O_CLOEXEC from birth and closed by `cleanup_fd`.
 *
 * The same files are built twice: into the static launcher and into the Python module shim.hooks._core.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>

/* Closes an int file descriptor when it goes out of scope; a negative one is nothing. */
#define cleanup_fd __attribute__((cleanup(close_fd)))

static inline void close_fd(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

/* grammar.c: the command lines of the low-level runtimes. */

enum grammar { RUNC, CRUN };

/* What a command line says. Pointers are NULL where it says nothing. */
struct call {
    const char *verb;
    int at;                 /* index of the verb in argv, 0 without one */
    bool injects;           /* create or run, and not only a question for help or version */
    const char *bundle;     /* NULL also for runc's empty --bundle, which means the working directory too */
    const char *config;     /* a file other than the bundle's config.json, relative to the working directory */
    const char *id;
    const char *root;
    const char *log;        /* a path that can be written to: never crun's journald: or syslog: */
    const char *log_format;
    const char *unknown;    /* an option before the verb that leaves open which word is the verb */
    int devices;            /* entries of the devices array */
    int kept;               /* entries of the kept array, the closing NULL not counted */
};

/* The grammar that a low-level runtime follows, told by the last part of its path. */
enum grammar grammar_of(const char *path);

/*
 * Reads argv, argv[0] included. `kept` receives argv without our --device options and a closing NULL: room for
 * argc + 1; `devices` receives the values of these options: room for argc. It cannot fail: what no table knows is
 * the runtime's.
 */
void parse_call(enum grammar grammar, int argc, char *const argv[], struct call *call, char **kept, char **devices);

/* scan.c: whether the bytes of a config.json could hold a request. Errs only towards true. */
bool asks(const char *text, size_t size);

/* report.c: what the launcher has to say when it cannot go on. */

/* What an errno value means for a file that was to be used, in words that no engine turns into an exit status. */
const char *problem(int error);

/*
 * Writes text into out as the inside of a JSON string, NUL-terminated and cut at a whole character when room is
 * short: control characters and bytes that are not UTF-8 never come through. Quotes and backslashes are escaped
 * when `quotes`.
 */
void escape(char *out, size_t room, const char *text, bool quotes);

/* Writes the time, in seconds since 1970, in RFC 3339 and UTC: room for 21 bytes. */
void stamp(char *out, long now);

/* One line to stderr and, when log is not NULL, one in runc's form to the file: JSON when log_format says so. */
void report(const char *log, const char *log_format, const char *message);
