/* insert.c: puts the edits of an answer into the text of a config.json. */
#pragma once

#include "answer.h"

/* cffi: begin */

enum { MAX_SPLICES = 4096, MAX_INSERTED = 2 << 20 };

/* A part of the text that other bytes take the place of; with size 0 they are inserted. */
struct splice {
    uint32_t at, size;
    const char *text; /* `length` bytes */
    uint32_t length;
    uint32_t order; /* among those at the same offset */
};

/* A variable of the plan, and its entry before. */
struct variable {
    struct span name, before; /* before: the JSON string with the name; NULL where there was none */
};

struct inserts {
    struct splice splices[MAX_SPLICES];
    unsigned count;
    struct variable variables[MAX_REQUESTS * 8];
    unsigned variable_count;
    char text[MAX_INSERTED]; /* bytes that are put together here */
    size_t used;
    unsigned added, present; /* items that config.json lacked, and those that it had */
};

/*
 * Finds out what to insert.
 * Returns 1; 0: config.json has all of it already. -ENOTSUP: it holds something that an edit could collide with, or of another
 * form than expected; -E2BIG: there is no room. inserts: undefined then.
 */
int insert_edits(struct inserts *inserts, const struct json_tree *tree, const struct answer *answer);

/* The new text in parts, which lie in the old one, in the answer and in `inserts`: as many as are returned. */
enum { MAX_PARTS = 2 * MAX_SPLICES + 1 };
unsigned insert_parts(const struct inserts *inserts, const struct json_tree *tree, size_t size,
                      struct span parts[MAX_PARTS]);

/* cffi: end */
