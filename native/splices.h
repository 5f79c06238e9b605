/* splices.c, entries.c: parts of insert.c: inserts into a text, and comparison with existing entries. */
#pragma once

#include "insert.h"

struct work {
    struct inserts *inserts;
    const struct json_tree *tree;
    struct fields edits;
    int error; /* the first error; further calls do nothing then */
};

/* Sets the error, unless one is set. */
void edit_fail(struct work *work, int error);

/* Appends bytes to the buffer. */
void edit_put(struct work *work, const char *text, size_t size);

/* The same for a NUL-terminated text. */
void edit_put_text(struct work *work, const char *text);

/* Replaces SIZE bytes at an offset by `text`. */
void edit_splice(struct work *work, uint32_t at, uint32_t size, const char *text, size_t length);

/* Inserts the bytes of the buffer since `from`, which begin with a comma, after the last item of a list or object. */
void edit_insert(struct work *work, uint32_t value, size_t from);

/* A member that must be a list or object, by `kind` ('[', '{'); 0 if it is missing. */
uint32_t edit_section(struct work *work, uint32_t object, const char *name, char kind);

/* A member that must be an object with members. */
uint32_t edit_filled(struct work *work, uint32_t object, const char *name);

/*
 * Appends entries to a list of an object. They are in the buffer since `from`, each with a comma before it. If the list
 * is missing, it is created, with `before` and `after` around it.
 */
void edit_append(struct work *work, uint32_t object, uint32_t list, const char *before, const char *after, size_t from);

/* Brings the splices into the order of the text. */
void edit_sort(struct inserts *inserts);

/* Whether a value has exactly this text. */
bool edit_is_text(const struct json_tree *tree, uint32_t value, struct span text);

/* Whether two texts are the same. */
bool span_is_same(struct span first, struct span second);

/* Whether a path lies below another one. */
bool span_is_below(struct span path, struct span above);

/* The path in a member of an entry; if it is not in the usual form, "", and the create is left to Python. */
struct span edit_path(struct work *work, uint32_t entry, const char *name);

/* Counts an item that exists already, or appends an entry for it to the buffer. */
void edit_add_entry(struct work *work, bool is_there, struct span entry);

/*
 * The index of the entry of a variable in a list; 0 if it is missing. If there are two, or the name of an entry's
 * variable is unclear, the create is left to Python.
 */
uint32_t edit_find_variable(struct work *work, uint32_t list, struct span name);

/*
 * The first device rule after the last that denies access, 0 if there is none: the rules before have no effect any
 * more. If an entry is no object, the edit is left to Python.
 */
uint32_t edit_first_rule(struct work *work, uint32_t list);

/*
 * Whether a rule has exactly the text of an entry, among those from `first` on. If one is only about the same device,
 * the edit is left to Python, which compares them.
 */
bool edit_has_rule(struct work *work, uint32_t first, struct span major, struct span minor, struct span entry);
