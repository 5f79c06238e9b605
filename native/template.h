/* template.c: texts with holes: the record and the line of the log that a repeated create leaves. */
#pragma once

#include "answer.h"
#include "insert.h"

#include <sys/stat.h>

enum { MAX_LINE = MAX_ANSWER + (256 << 10) };

/* A text that is put together. */
struct line {
    char text[MAX_LINE];
    size_t used;
    bool failed;
};

/* What goes into the holes. */
struct values {
    const struct call *call;
    const struct question *question;
    const struct inserts *inserts;
    const char *bundle, *config; /* absolute paths */
    struct stat written;         /* of config.json as it is now */
};

/* Puts a text together: parts of it and holes in turns. False where that is not what the fields hold, or does not fit. */
bool template_write(struct line *line, struct fields parts, const struct values *values);
