/* repeat.c: repeats a create that Python has decided before, without Python. */
#pragma once

#include "call.h"
#include "places.h"

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
    bool is_judged;     /* grants are enforced, and it has no devices of its own (hardware.c) */
};

/* The text of a question, and the name of the file that would hold its answer. */
struct asked {
    const char *question;
    char answer[KEY_SIZE];
};

/*
 * Edits config.json as decided before for the same question, and writes the record and the line of the log.
 * asked: the question, if Python may leave an answer to it; else its text is NULL.
 * Returns whether that was done. If not, nothing has changed, and Python has to decide.
 */
bool repeat_create(const struct create *create, struct asked *asked);
