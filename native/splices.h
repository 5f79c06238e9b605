/* splices.c, entries.c: what insert.c is made of: inserts into a text, and the entries that are there. */
#pragma once

#include "insert.h"

struct work {
    struct inserts *inserts;
    const struct json_tree *tree;
    struct fields edits;
    int error; /* the first one; what follows does nothing then */
};

/* Keeps an error, unless there is one. */
void edit_fail(struct work *work, int error);

/* Puts bytes behind the others that are being put together. */
void edit_put(struct work *work, const char *text, size_t size);

/* The same for those of a text that a NUL ends. */
void edit_put_text(struct work *work, const char *text);

/* Lets `text` take the place of SIZE bytes at an offset. */
void edit_splice(struct work *work, uint32_t at, uint32_t size, const char *text, size_t length);

/* Inserts what was put together since `from`, which begins with a comma, behind the last item of a list or object. */
void edit_insert(struct work *work, uint32_t value, size_t from);

/* A member that must be a list or object, as `kind` says ('[', '{'), 0 where it is missing. */
uint32_t edit_section(struct work *work, uint32_t object, const char *name, char kind);

/* A member that must be an object with members. */
uint32_t edit_filled(struct work *work, uint32_t object, const char *name);

/*
 * Appends entries to a list of an object. They were put together since `from`, each with a comma before it. Where the list is
 * missing, it is made, `before` and `after` around it.
 */
void edit_append(struct work *work, uint32_t object, uint32_t list, const char *before, const char *after, size_t from);

/* Brings the splices into the order of the text. */
void edit_sort(struct inserts *inserts);

/* Whether a value is written exactly so. */
bool edit_is_text(const struct json_tree *tree, uint32_t value, struct span text);

/* Whether two texts are the same. */
bool span_is_same(struct span one, struct span two);

/* Whether a path lies below another one. */
bool span_is_below(struct span path, struct span above);

/* The path that an entry has under a name; where it is none in its usual form, the create is left to Python, and "". */
struct span edit_path(struct work *work, uint32_t entry, const char *name);

/* Counts an item that is there already, or puts an entry for it behind the others. */
void edit_add_entry(struct work *work, bool is_there, struct span entry);

/*
 * The entry of a variable in a list, as an index; 0 where there is none. Where there are two, or it cannot be told which variable an
 * entry is of, the create is left to Python.
 */
uint32_t edit_find_variable(struct work *work, uint32_t list, struct span name);
