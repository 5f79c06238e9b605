/* template.c: templates of the record and of the line of the log that a repeated create writes. */
#pragma once

#include "answer.h"
#include "insert.h"

#include <sys/stat.h>

enum { MAX_LINE = MAX_ANSWER + (256 << 10) };

/* A text that is being built. */
struct line {
    char text[MAX_LINE];
    size_t used;
    bool failed;
};

/* The values for the holes. */
struct values {
    const struct call *call;
    const struct question *question;
    const struct inserts *inserts;
    const char *bundle, *config; /* absolute paths */
    struct stat written;         /* of config.json as it is now */
};

/* Fills a template in: text and holes alternate. False if the fields are malformed, or the text does not fit. */
bool template_write(struct line *line, struct fields parts, const struct values *values);
