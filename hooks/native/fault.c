/* The one way to say what went wrong: one line, the path in it, the system's words at its end. */
#define _GNU_SOURCE
#include "native.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int fault_set(struct fault *fault, int code, const char *format, ...)
{
    if (!fault)
        return -code;

    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(fault->text, sizeof fault->text, format, arguments);
    va_end(arguments);

    size_t used = length < 0 ? 0 : (size_t)length;
    if (used < sizeof fault->text)
        snprintf(fault->text + used, sizeof fault->text - used, ": %s", strerror(code));
    /* Names come from images; a newline in one must not forge a second line. */
    for (char *c = fault->text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
    fault->code = code;
    return -code;
}
