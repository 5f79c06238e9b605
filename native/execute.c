/*
 * The end of the launcher, when it does not execute Python: it executes the low-level runtime, or reports an error.
 *
 * If Python cannot run, some calls continue without it. An exec then only lacks a variable, and it may be a liveness
 * probe, whose failure would end a healthy container. An update continues likewise, and so does a create in which
 * nothing known asks for a device. For these the launcher sets a fallback.
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
