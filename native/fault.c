/*
 * Texts of errors: a line, with the path in it and the reason at its end. The texts for errno values are those of
 * problem(), since engines search the output of hooks for the usual texts and change the exit status.
 */
#define _GNU_SOURCE
#include "fault.h"
#include "report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static const char *why(int code)
{
    switch (code) {
    case E2BIG:
    case EFBIG:
        return "it exceeds the limit for files of an image";
    case EXDEV:
        return "another file system is mounted there";
    case ETIMEDOUT:
        return "it took too long";
    case EINVAL:
        return "it is not what it should be";
    default:
        return problem(code);
    }
}

static int fill(struct fault *fault, int code, const char *format, va_list arguments, const char *end)
{
    if (!fault)
        return -code;
    int length = vsnprintf(fault->text, sizeof fault->text, format, arguments);
    size_t used = length < 0 ? 0 : (size_t)length;
    if (end && used < sizeof fault->text)
        snprintf(fault->text + used, sizeof fault->text - used, ": %s", end);
    /* Names come from images; a newline in one must not forge a second line. */
    for (char *c = fault->text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
    fault->code = code;
    return -code;
}

int fault_set(struct fault *fault, int code, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    int rc = fill(fault, code, format, arguments, why(code));
    va_end(arguments);
    return rc;
}

int fault_say(struct fault *fault, int code, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    int rc = fill(fault, code, format, arguments, NULL);
    va_end(arguments);
    return rc;
}
