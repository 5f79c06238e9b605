/* repeat.c: repeats a create that Python has decided before, without Python. */
#pragma once

#include "call.h"

#include <sys/stat.h>

/* A create, with the facts that the launcher has. */
struct create {
    const struct call *call;
    char *const *devices;       /* values of --device, call->devices of them */
    const char *name;           /* last part of argv[0] */
    const char *launcher, *low; /* paths of this program and of the low-level runtime */
    const char *record;         /* name of the container's record */
    const char *text;           /* config.json, with a NUL behind its `size` bytes */
    size_t size;
    struct stat status; /* of config.json, when it was opened */
};

/*
 * Edits config.json as decided before for the same question, and writes the record and the line of the log.
 * question: the text of the question, if Python may leave an answer to it; else NULL.
 * Returns whether that was done. If not, nothing has changed, and Python has to decide.
 */
bool repeat_create(const struct create *create, const char **question);
