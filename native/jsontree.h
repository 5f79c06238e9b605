/* jsontree.c: the offsets of all values of a JSON text, to look values up and to insert others. */
#pragma once

#include "json.h"

/* cffi: begin */

enum { MAX_VALUES = 1 << 16, MAX_MEMBERS = 1 << 12 };

/* A value of the text. Index 0 is the whole text, so elsewhere it means that there is no value. */
struct json_value {
    uint32_t start, end;  /* offsets of its first byte and behind its last one */
    uint32_t name;        /* offset of the first byte of its name, behind the quote; of a member only */
    uint32_t name_size;   /* bytes */
    uint32_t first, next; /* of a list or object the first value in it; the next value in the same */
    uint32_t count;       /* of a list or object: how many values are in it */
};

struct json_tree {
    const char *text;
    uint32_t count; /* of values; 0 is the whole text */
    struct json_value values[MAX_VALUES];
};

/*
 * Reads a text, which must live as long as the tree, and have a NUL behind its SIZE bytes.
 * Returns 0. -EINVAL: it is not JSON in UTF-8, or of a form that readers understand differently: a name that stands
 * twice in one object, or is written with an escape or with other than ASCII letters, a number with a fraction or an
 * exponent; -E2BIG: it has more values, an object more members, or more levels, than there is room for. Tree: undefined
 * then.
 */
int json_tree_read(struct json_tree *tree, const char *text, size_t size);

/* cffi: end */

/* The index of a member of an object, 0 if the value is not an object or has no such member. */
uint32_t json_tree_member(const struct json_tree *tree, uint32_t object, const char *name);

/* The first byte of a value: '{', '[', '"', a digit or '-', 't', 'f' or 'n'. */
static inline char json_tree_kind(const struct json_tree *tree, uint32_t value)
{
    return tree->text[tree->values[value].start];
}

/*
 * The text of a string of printable ASCII letters without an escape. NULL, and *size unchanged, for other values.
 */
const char *json_tree_plain(const struct json_tree *tree, uint32_t value, size_t *size);

/* Whether a value is a string with this text, written without escapes. */
bool json_tree_is(const struct json_tree *tree, uint32_t value, const char *text);

/* Whether text, of SIZE bytes, needs no escape in JSON: printable ASCII letters but the quote and the backslash. */
bool is_plain(const char *text, size_t size);
