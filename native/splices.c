/* Collects inserts into a text, and carries them out; insert.c decides what is inserted. */
#define _GNU_SOURCE
#include "splices.h"

#include <errno.h>
#include <stdlib.h>

void edit_fail(struct work *work, int error)
{
    if (!work->error)
        work->error = error;
}

/* --- splices ------------------------------------------------------------------------------------------------------ */

void edit_put(struct work *work, const char *text, size_t size)
{
    struct inserts *inserts = work->inserts;
    if (size > sizeof inserts->text - inserts->used) {
        edit_fail(work, -E2BIG);
        return;
    }
    memcpy(inserts->text + inserts->used, text, size);
    inserts->used += size;
}

void edit_put_text(struct work *work, const char *text)
{
    edit_put(work, text, strlen(text));
}

void edit_splice(struct work *work, uint32_t at, uint32_t size, const char *text, size_t length)
{
    struct inserts *inserts = work->inserts;
    if (inserts->count == MAX_SPLICES || length > UINT32_MAX) {
        edit_fail(work, -E2BIG);
        return;
    }
    inserts->splices[inserts->count] = (struct splice){at, size, text, (uint32_t)length, inserts->count};
    inserts->count++;
}

static uint32_t last_in(const struct json_tree *tree, uint32_t value)
{
    uint32_t last = 0;
    for (uint32_t at = tree->values[value].first; at; at = tree->values[at].next)
        last = at;
    return last;
}

void edit_insert(struct work *work, uint32_t value, size_t from)
{
    const char *text = work->inserts->text + from;
    size_t length = work->inserts->used - from;
    uint32_t last = last_in(work->tree, value);
    if (last)
        edit_splice(work, work->tree->values[last].end, 0, text, length);
    else
        edit_splice(work, work->tree->values[value].start + 1, 0, text + 1, length - 1);
}

uint32_t edit_section(struct work *work, uint32_t object, const char *name, char kind)
{
    uint32_t value = json_tree_member(work->tree, object, name);
    if (value && json_tree_kind(work->tree, value) != kind)
        edit_fail(work, -ENOTSUP);
    return value;
}

uint32_t edit_filled(struct work *work, uint32_t object, const char *name)
{
    uint32_t value = edit_section(work, object, name, '{');
    if (!value || !work->tree->values[value].count)
        edit_fail(work, -ENOTSUP);
    return value;
}

void edit_append(struct work *work, uint32_t object, uint32_t list, const char *before, const char *after, size_t from)
{
    struct inserts *inserts = work->inserts;
    if (work->error || inserts->used == from)
        return;
    if (list) {
        edit_insert(work, list, from);
        return;
    }
    size_t start = inserts->used;
    edit_put_text(work, before);
    edit_put(work, inserts->text + from + 1, start - from - 1);
    edit_put_text(work, after);
    if (!work->error)
        edit_insert(work, object, start);
}

static int compare_splices(const void *first, const void *second)
{
    const struct splice *left = first, *right = second;
    if (left->at != right->at)
        return left->at < right->at ? -1 : 1;
    return left->order < right->order ? -1 : 1;
}

void edit_sort(struct inserts *inserts)
{
    qsort(inserts->splices, inserts->count, sizeof *inserts->splices, compare_splices);
}

unsigned insert_parts(const struct inserts *inserts, const struct json_tree *tree, size_t size,
                      struct span parts[MAX_PARTS])
{
    unsigned count = 0;
    size_t at = 0;
    for (unsigned i = 0; i < inserts->count; i++) {
        const struct splice *splice = &inserts->splices[i];
        parts[count++] = (struct span){tree->text + at, splice->at - at};
        parts[count++] = (struct span){splice->text, splice->length};
        at = splice->at + splice->size;
    }
    parts[count++] = (struct span){tree->text + at, size - at};
    return count;
}
