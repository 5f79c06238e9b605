/* Compares the entries of config.json with the items of an answer. */
#define _GNU_SOURCE
#include "splices.h"

#include <errno.h>

bool edit_is_text(const struct json_tree *tree, uint32_t value, struct span text)
{
    const struct json_value *json = &tree->values[value];
    return json->end - json->start == text.size && memcmp(tree->text + json->start, text.text, text.size) == 0;
}

/* Whether a path is absolute and in its shortest form: then no other text is the same path. */
static bool is_usual_path(struct span path)
{
    if (path.size < 2 || path.text[0] != '/' || path.text[path.size - 1] == '/')
        return false;
    for (size_t i = 0; i < path.size; i++) {
        const char *rest = path.text + i + 1;
        size_t left = path.size - i - 1;
        if (path.text[i] == '/' &&
            (rest[0] == '/' ||
             (rest[0] == '.' && (left == 1 || rest[1] == '/' || (rest[1] == '.' && (left == 2 || rest[2] == '/'))))))
            return false;
    }
    return true;
}

struct span edit_path(struct work *work, uint32_t entry, const char *name)
{
    struct span path = {"", 0};
    uint32_t value = json_tree_kind(work->tree, entry) == '{' ? json_tree_member(work->tree, entry, name) : 0;
    path.text = value ? json_tree_plain(work->tree, value, &path.size) : NULL;
    if (path.text && is_usual_path(path))
        return path;
    edit_fail(work, -ENOTSUP);
    return (struct span){"", 0};
}

bool span_is_same(struct span first, struct span second)
{
    return first.size == second.size && memcmp(first.text, second.text, first.size) == 0;
}

bool span_is_below(struct span path, struct span above)
{
    return path.size > above.size && path.text[above.size] == '/' && memcmp(path.text, above.text, above.size) == 0;
}

void edit_add_entry(struct work *work, bool is_there, struct span entry)
{
    if (is_there) {
        work->inserts->present++;
        return;
    }
    work->inserts->added++;
    edit_put_text(work, ",");
    edit_put(work, entry.text, entry.size);
}

uint32_t edit_find_variable(struct work *work, uint32_t list, struct span name)
{
    uint32_t index = 0;
    for (uint32_t at = work->tree->values[list].first; at; at = work->tree->values[at].next) {
        const char *text = work->tree->text + work->tree->values[at].start;
        size_t size = work->tree->values[at].end - work->tree->values[at].start;
        if (*text != '"') {
            edit_fail(work, -ENOTSUP);
            return 0;
        }
        text++;
        size -= 2;
        const char *equals = memchr(text, '=', size);
        struct span entry = {text, equals ? (size_t)(equals - text) : size};
        if (memchr(entry.text, '\\', entry.size) || (index && span_is_same(entry, name)))
            edit_fail(work, -ENOTSUP);
        if (span_is_same(entry, name))
            index = at;
    }
    return index;
}

uint32_t edit_first_rule(struct work *work, uint32_t list)
{
    uint32_t first = work->tree->values[list].first;
    for (uint32_t at = first; at; at = work->tree->values[at].next) {
        uint32_t allow = json_tree_kind(work->tree, at) == '{' ? json_tree_member(work->tree, at, "allow") : 0;
        if (json_tree_kind(work->tree, at) != '{')
            edit_fail(work, -ENOTSUP);
        if (!allow || json_tree_kind(work->tree, allow) != 't')
            first = work->tree->values[at].next;
    }
    return first;
}

/* Whether an existing rule is that of an item; if it is only about the same device, Python compares them. */
static bool is_rule(struct work *work, struct span major, struct span minor, struct span entry, uint32_t rule)
{
    if (edit_is_text(work->tree, rule, entry))
        return true;
    uint32_t its_major = json_tree_member(work->tree, rule, "major"),
             its_minor = json_tree_member(work->tree, rule, "minor");
    if (its_major && its_minor && edit_is_text(work->tree, its_major, major) &&
        edit_is_text(work->tree, its_minor, minor))
        edit_fail(work, -ENOTSUP);
    return false;
}

bool edit_has_rule(struct work *work, uint32_t first, struct span major, struct span minor, struct span entry)
{
    bool is_there = false;
    for (uint32_t at = first; at && !is_there && !work->error; at = work->tree->values[at].next)
        is_there = is_rule(work, major, minor, entry, at);
    return is_there;
}
