/*
 * How the launcher ends when it does not execute Python: it executes the low-level runtime, or reports an error.
 *
 * Where Python cannot run, a call may go on without it. An exec only lacks a variable then, and it may be the probe on which
 * a healthy container's life depends. An update goes on likewise, and so does a create in which nothing that is known asks
 * for a device. For these the launcher names a fallback.
 */
#define _GNU_SOURCE
#include "execute.h"
#include "lowlevel.h"
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

static const struct call *reported = &(const struct call){0};
static struct {
    const char *program;
    char **argv; /* NULL: there is no fallback */
} fallback;

void log_errors_of(const struct call *call)
{
    reported = call;
}

void fall_back_to(const char *program, char *argv[])
{
    fallback.program = program;
    fallback.argv = argv;
}

void give_up(const char *id, const char *remedy, const char *form, ...)
{
    static char text[4 * PATH_MAX], message[8 * PATH_MAX];
    if (fallback.argv) {
        char **argv = fallback.argv;
        fallback.argv = NULL;
        execute_low_level(fallback.program, argv);
    }
    va_list arguments;
    va_start(arguments, form);
    vsnprintf(text, sizeof text, form, arguments);
    va_end(arguments);
    snprintf(message, sizeof message, "shim: %s: %s (%s)", id, text, remedy);
    report(reported->log, reported->log_format, message);
    _exit(1);
}

const char *start_problem(const char *program, int error)
{
    if (error == ENOENT && faccessat(AT_FDCWD, program, F_OK, AT_EACCESS) == 0)
        return "the loader that it names is missing";
    return problem(error);
}

void execute_low_level(const char *program, char *argv[])
{
    argv[0] = (char *)program;
    execve(program, argv, environ);
    give_up("LOWLEVEL_EXEC", "install it, or let the link in " LOW_LEVEL_LINKS " point to the right one",
            "the low-level runtime %s cannot be started: %s", program, start_problem(program, errno));
}
