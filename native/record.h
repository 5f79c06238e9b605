/* record.c: reads the record that a create has left, for the calls that follow. */
#pragma once

#include "call.h"
#include "jsontree.h"

enum { MAX_RECORD = 1 << 20 };

/* The second line of a record (shim/create/record_files.py). */
struct record {
    struct json_tree tree; /* an object */
    char text[MAX_RECORD + 1];
};

/*
 * Reads the record of the container that a call is about.
 * name: last part of the launcher's argv[0]. key: name of the record.
 * Returns false if there is none that counts without a look into config.json: Python has to decide then.
 */
bool record_read(struct record *record, const struct call *call, const char *name, const char *key);
