/* fault.c: an error and its text. */
#pragma once

#include "common.h"

/* cffi: begin */

struct fault {
    int code;       /* errno value, 0: no error */
    char text[300]; /* one line, control characters replaced */
};

/* cffi: end */

/* Fills in the code and the text, with the meaning of the code at the end. Returns -code. FAULT may be NULL. */
int fault_set(struct fault *fault, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same for a text that already has the meaning. */
int fault_say(struct fault *fault, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
