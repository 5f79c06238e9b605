/*
 * A JSON text as a tree of offsets: an insert needs to know where values begin and end, and leaves all other bytes as
 * they are. It is built by the pull reader (json.c), and stricter than that: a text that two readers could understand
 * differently is refused.
 */
#define _GNU_SOURCE
#include "jsontree.h"
#include "report.h"

#include <errno.h>
#include <stdlib.h>

enum { MAX_DEPTH = 128, MAX_DIGITS = 40 };

/* --- texts that readers understand differently -------------------------------------------------------------------- */

static bool is_utf8(const char *text, size_t size)
{
    const char *end = text + size;
    while (text < end) {
        size_t length = character_size(text);
        if (!length || length > (size_t)(end - text))
            return false;
        text += length;
    }
    return true;
}

/* -?(0|[1-9][0-9]*), and not longer than every reader takes */
static bool is_whole_number(const char *text, size_t size)
{
    size_t at = size && text[0] == '-';
    if (at == size || size > MAX_DIGITS || (text[at] == '0' && at + 1 < size))
        return false;
    for (; at < size; at++)
        if (text[at] < '0' || text[at] > '9')
            return false;
    return true;
}

/* By length first: any order is sufficient. */
static int compare_names(const void *first, const void *second, void *text)
{
    const struct json_value *const *left = first, *const *right = second;
    if ((*left)->name_size != (*right)->name_size)
        return (*left)->name_size < (*right)->name_size ? -1 : 1;
    return memcmp((char *)text + (*left)->name, (char *)text + (*right)->name, (*left)->name_size);
}

static bool has_repeated_name(const struct json_tree *tree, const struct json_value *object)
{
    static const struct json_value *members[MAX_MEMBERS];
    size_t count = 0;
    for (uint32_t at = object->first; at; at = tree->values[at].next)
        members[count++] = &tree->values[at];
    qsort_r(members, count, sizeof *members, compare_names, (void *)tree->text);
    for (size_t i = 1; i < count; i++)
        if (compare_names(&members[i - 1], &members[i], (void *)tree->text) == 0)
            return true;
    return false;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* Finds the name of a member in the bytes that json_member() consumed: `, "name" :`. False for an unusual name. */
static bool take_name(struct json_value *value, const char *text, const char *from, const char *to)
{
    const char *start = memchr(from, '"', (size_t)(to - from));
    if (!start)
        return false;
    start++;
    const char *end = memchr(start, '"', (size_t)(to - start));
    if (!end || !is_plain(start, (size_t)(end - start)))
        return false;
    value->name = (uint32_t)(start - text);
    value->name_size = (uint32_t)(end - start);
    return true;
}

static bool is_understood(const struct json_tree *tree, const struct json_value *value)
{
    const char *text = tree->text + value->start;
    if (*text == '-' || (*text >= '0' && *text <= '9'))
        return is_whole_number(text, value->end - value->start);
    return *text == '"' || *text == 't' || *text == 'f' || *text == 'n';
}

/* Adds the value that comes next to the list or object `in`, behind the value `last` (0: it is the first there). */
static struct json_value *add(struct json_tree *tree, struct json *json, uint32_t in, uint32_t last)
{
    if (tree->count == MAX_VALUES || (tree->count && tree->values[in].count == MAX_MEMBERS))
        return NULL;
    struct json_value *value = &tree->values[tree->count];
    *value = (struct json_value){0};
    if (tree->count) {
        *(last ? &tree->values[last].next : &tree->values[in].first) = tree->count;
        tree->values[in].count++;
    }
    json_next(json);
    value->start = (uint32_t)(json->at - tree->text);
    tree->count++;
    return value;
}

int json_tree_read(struct json_tree *tree, const char *text, size_t size)
{
    struct {
        uint32_t value, last;
    } open[MAX_DEPTH];
    unsigned depth = 0;
    struct json json;
    if (size >= UINT32_MAX || !is_utf8(text, size))
        return -EINVAL;
    tree->text = text;
    tree->count = 0;
    json_open(&json, text, size);
    do {
        uint32_t in = depth ? open[depth - 1].value : 0;
        const char *before = json.at;
        bool is_member = depth && json_tree_kind(tree, in) == '{';
        if (depth && !(is_member ? json_member(&json, NULL, 0) : json_more(&json))) {
            tree->values[in].end = (uint32_t)(json.at - text);
            if (json.failed || (is_member && has_repeated_name(tree, &tree->values[in])))
                return -EINVAL;
            depth--;
            continue;
        }
        uint32_t index = tree->count;
        const char *name_end = json.at;
        struct json_value *value = add(tree, &json, in, depth ? open[depth - 1].last : 0);
        if (!value)
            return -E2BIG;
        if (is_member && !take_name(value, text, before, name_end))
            return -EINVAL;
        if (depth)
            open[depth - 1].last = index;
        if (json_enter(&json, '{') || json_enter(&json, '[')) {
            if (depth == MAX_DEPTH)
                return -E2BIG;
            open[depth].value = index;
            open[depth++].last = 0;
            continue;
        }
        json_skip(&json);
        value->end = (uint32_t)(json.at - text);
        if (json.failed || !is_understood(tree, value))
            return -EINVAL;
    } while (depth);
    return json_done(&json) ? 0 : -EINVAL;
}

/* --- looking up --------------------------------------------------------------------------------------------------- */

uint32_t json_tree_member(const struct json_tree *tree, uint32_t object, const char *name)
{
    size_t size = strlen(name);
    if (json_tree_kind(tree, object) != '{')
        return 0;
    for (uint32_t at = tree->values[object].first; at; at = tree->values[at].next)
        if (tree->values[at].name_size == size && memcmp(tree->text + tree->values[at].name, name, size) == 0)
            return at;
    return 0;
}

bool is_plain(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (text[i] < ' ' || text[i] > '~' || text[i] == '"' || text[i] == '\\')
            return false;
    return true;
}

const char *json_tree_plain(const struct json_tree *tree, uint32_t value, size_t *size)
{
    const struct json_value *json = &tree->values[value];
    const char *text = tree->text + json->start;
    if (*text != '"' || !is_plain(text + 1, json->end - json->start - 2))
        return NULL;
    *size = json->end - json->start - 2;
    return text + 1;
}

bool json_tree_is(const struct json_tree *tree, uint32_t value, const char *text)
{
    size_t size = 0;
    const char *plain = json_tree_plain(tree, value, &size);
    return plain && size == strlen(text) && memcmp(plain, text, size) == 0;
}
