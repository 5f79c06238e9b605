/* insert.c: puts the edits of an answer into the text of a config.json. */
#pragma once

#include "answer.h"

/* cffi: begin */

enum { MAX_SPLICES = 4096, MAX_INSERTED = 2 << 20 };

/* A part of the text, and the bytes that replace it; with size 0 they are inserted. */
struct splice {
    uint32_t at, size;
    const char *text; /* `length` bytes */
    uint32_t length;
    uint32_t order; /* among those at the same offset */
};

/* A variable of the plan, and its entry before. */
struct variable {
    struct span name, before; /* before: the JSON string with the name; NULL if it is new */
};

struct inserts {
    struct splice splices[MAX_SPLICES];
    unsigned count;
    struct variable variables[MAX_REQUESTS * 8];
    unsigned variable_count;
    char text[MAX_INSERTED]; /* buffer for new bytes */
    size_t used;
    unsigned added, present; /* numbers of items that config.json lacked, and that it had */
};

/*
 * Determines what to insert.
 * Returns 1; 0: config.json has all items already. -ENOTSUP: a part of it has another form than expected, or could
 * collide with an edit; -E2BIG: there is no room. inserts: undefined then.
 */
int insert_edits(struct inserts *inserts, const struct json_tree *tree, const struct answer *answer);

/* The new text in parts, which lie in the old text, in the answer and in `inserts`. Returns their number. */
enum { MAX_PARTS = 2 * MAX_SPLICES + 1 };
unsigned insert_parts(const struct inserts *inserts, const struct json_tree *tree, size_t size,
                      struct span parts[MAX_PARTS]);

/* cffi: end */
