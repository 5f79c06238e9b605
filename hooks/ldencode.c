/*
 * The bytes of a cache: the order of its entries, its strings, its layout.
 *
 * The file: a header of 48 bytes, the entries of 24 bytes in descending order of names (the loader's search is binary),
 * a string table in which a string that is the end of its neighbour takes no room, and an extension block with the
 * generator's name and the names of glibc-hwcaps directories. Integers have the machine's byte order.
 */
#define _GNU_SOURCE
#include "ldwork.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- order ---- */

/* Whether the first item comes before the second (negative) or after it; context: the first argument. */
typedef int comparison(const void *, const void *, const void *);

/* A stable sort: equal items keep their order. spare: room for as many pointers. */
static void merge(const void **items, const void **spare, size_t count, comparison *compare, const void *context)
{
    if (count < 2)
        return;
    size_t half = count / 2, left = 0, right = half, to = 0;
    merge(items, spare, half, compare, context);
    merge(items + half, spare, count - half, compare, context);
    if (compare(context, items[half - 1], items[half]) <= 0)
        return;
    while (left < half && right < count)
        spare[to++] = compare(context, items[left], items[right]) <= 0 ? items[left++] : items[right++];
    while (left < half)
        spare[to++] = items[left++];
    memcpy(items, spare, to * sizeof *items);
}

static int compare_items(const void *context, const void *left_item, const void *right_item)
{
    const struct ld_item *first = left_item, *second = right_item;
    int order = ld_compare(context, second->key, first->key);

    if (order)
        return order;
    if (first->flags != second->flags)
        return first->flags < second->flags ? 1 : -1;
    if (first->hwcaps != second->hwcaps)
        return !first->hwcaps ? 1 : !second->hwcaps ? -1 : strcmp(first->hwcaps, second->hwcaps);
    int left = __builtin_popcountll(first->hwcap), right = __builtin_popcountll(second->hwcap);
    if (left != right)
        return left < right ? 1 : -1;
    return first->hwcap == second->hwcap ? 0 : first->hwcap < second->hwcap ? 1 : -1;
}

/* glibc's insertion sort: needed if the comparison is not transitive, see long_number. Its cost is the square of the
 * number of items, which the image decides, so it ends at the deadline. */
static int insert(const struct ld_work *work, const void **items)
{
    for (size_t i = 1; i < work->item_count; i++) {
        int late = root_late(work->root);
        if (late)
            return late;
        const void *fresh = items[i];
        size_t at = 0;
        while (at < i && compare_items(work->profile->arch, items[at], fresh) <= 0)
            at++;
        memmove(items + at + 1, items + at, (i - at) * sizeof *items);
        items[at] = fresh;
    }
    return 0;
}

/* Numbers of more than nine digits wrap, and then a < b < c does not mean a < c. */
static bool long_number(const char *name)
{
    size_t run = 0;

    for (; *name; name++) {
        run = *name >= '0' && *name <= '9' ? run + 1 : 0;
        if (run > 9)
            return true;
    }
    return false;
}

static int sorted(struct ld_work *work, const void ***into)
{
    size_t size = work->item_count * sizeof(void *);
    const void **items = arena_get(&work->arena, size), **spare = arena_get(&work->arena, size);
    bool odd = false;

    if (!items || !spare)
        return -ENOMEM;
    for (size_t i = 0; i < work->item_count; i++) {
        items[i] = &work->items[i];
        odd |= long_number(work->items[i].key);
    }
    *into = items;
    if (odd)
        return insert(work, items);
    merge(items, spare, work->item_count, compare_items, work->profile->arch);
    return 0;
}

/* ---- strings ---- */

enum { TAIL = 8 };

struct string {
    const char *text;
    size_t length;
    uint64_t tail;    /* its last bytes, the last first, with zeros if it is shorter: decides most comparisons */
    uint32_t *offset; /* receives its offset */
};

static uint64_t tail_of(const char *text, size_t length)
{
    uint64_t tail = 0;

    for (size_t i = 0; i < TAIL; i++)
        tail = tail << 8 | (i < length ? (unsigned char)text[length - 1 - i] : 0);
    return tail;
}

/* Compares from the last byte on, larger first; of two strings with a common end the longer comes first. */
static int by_end(const void *context, const void *first, const void *second)
{
    const struct string *left = first, *right = second;
    size_t a = left->length, b = right->length;

    (void)context;
    if (left->tail != right->tail)
        return left->tail < right->tail ? 1 : -1;
    a -= a < TAIL ? a : TAIL;
    b -= b < TAIL ? b : TAIL;
    while (a && b) {
        unsigned char x = (unsigned char)left->text[--a], y = (unsigned char)right->text[--b];
        if (x != y)
            return x < y ? 1 : -1;
    }
    return a ? -1 : b ? 1 : 0;
}

static bool ends_with(const struct string *string, const struct string *end)
{
    return string->length >= end->length &&
           !memcmp(string->text + string->length - end->length, end->text, end->length);
}

/* Gives each string its offset, counted from BASE, and returns the size of the table. order: 2 * count pointers. */
static uint32_t lay_out_strings(const struct string *strings, size_t count, uint32_t base, const void **order)
{
    const struct string *before = NULL;
    uint32_t end = 0; /* behind the NUL of the preceding string */

    for (size_t i = 0; i < count; i++)
        order[i] = &strings[i];
    merge(order, order + count, count, by_end, NULL);
    for (size_t i = 0; i < count; i++) {
        const struct string *string = order[i];
        if (!before || !ends_with(before, string))
            end += (uint32_t)string->length + 1;
        *string->offset = base + end - 1 - (uint32_t)string->length;
        before = string;
    }
    return end;
}

/* ---- the file ---- */

struct file_header {
    char magic[20];
    uint32_t count, strings;
    uint8_t flags, zero[3];
    uint32_t extension;
    uint32_t unused[3];
};

struct file_entry {
    int32_t flags;
    uint32_t key, value, osversion;
    uint64_t hwcap;
};

struct file_section {
    uint32_t tag, flags, offset, size;
};

_Static_assert(sizeof(struct file_header) == 48 && sizeof(struct file_entry) == 24, "glibc's layout");

struct layout { /* the parts of a file, before they are written to a buffer */
    struct ld_work *work;
    const void **items; /* struct ld_item, sorted */
    struct file_entry *entries;
    struct string *strings;
    const void **order; /* room to sort the strings */
    size_t string_count;
    const char **names;     /* glibc-hwcaps names that an entry uses, sorted */
    uint32_t *name_offsets; /* of all names */
    size_t used;
};

static int by_text(const void *first, const void *second)
{
    return strcmp(*(const char *const *)first, *(const char *const *)second);
}

static void add_string(struct layout *layout, const char *text, uint32_t *offset)
{
    size_t length = strlen(text);

    layout->strings[layout->string_count++] = (struct string){text, length, tail_of(text, length), offset};
}

static uint64_t hwcap_value(const struct layout *layout, const struct ld_item *item)
{
    uint64_t index = 0;

    if (!item->hwcaps)
        return item->hwcap;
    while (strcmp(layout->names[index], item->hwcaps))
        index++;
    return 1ull << 62 | (uint64_t)item->isa << 32 | index;
}

static void collect_names(struct layout *layout)
{
    const struct ld_work *work = layout->work;

    for (size_t i = 0; i < work->hwcaps_count; i++)
        for (size_t j = 0; j < work->item_count; j++)
            if (work->items[j].hwcaps == work->hwcaps[i]) {
                layout->names[layout->used++] = work->hwcaps[i];
                break;
            }
    qsort(layout->names, layout->used, sizeof *layout->names, by_text);
}

static int lay_out(struct ld_work *work, struct layout *layout)
{
    *layout = (struct layout){.work = work};
    int rc = sorted(work, &layout->items);
    if (rc)
        return rc;
    layout->entries = arena_get(&work->arena, (work->item_count + 1) * sizeof *layout->entries);
    size_t strings = 2 * work->item_count + work->hwcaps_count + 1;
    layout->strings = arena_get(&work->arena, strings * sizeof *layout->strings);
    layout->order = arena_get(&work->arena, 2 * strings * sizeof *layout->order);
    layout->names = arena_get(&work->arena, (work->hwcaps_count + 1) * sizeof *layout->names);
    layout->name_offsets = arena_get(&work->arena, (work->hwcaps_count + 1) * sizeof *layout->name_offsets);
    if (!layout->entries || !layout->strings || !layout->order || !layout->names || !layout->name_offsets)
        return -ENOMEM;
    collect_names(layout);
    for (size_t i = 0; i < work->item_count; i++) {
        const struct ld_item *item = layout->items[i];
        struct file_entry *entry = &layout->entries[i];
        entry->flags = item->flags;
        entry->hwcap = hwcap_value(layout, item);
        add_string(layout, item->key, &entry->key);
        add_string(layout, item->value, &entry->value);
    }
    for (size_t i = 0; i < work->hwcaps_count; i++)
        add_string(layout, work->hwcaps[i], &layout->name_offsets[i]);
    return 0;
}

static uint32_t offset_of_name(const struct layout *layout, const char *name)
{
    size_t i = 0;

    while (layout->work->hwcaps[i] != name)
        i++;
    return layout->name_offsets[i];
}

/* The extension block, which ends the file: sections, the offsets of the used names, the generator's text. */
static void put_extension(const struct layout *layout, char *file, uint32_t at)
{
    const char *generator = layout->work->profile->generator;
    uint32_t count = layout->used ? 2 : 1, names = at + 8 + count * 16, text = names + (uint32_t)layout->used * 4;
    uint32_t head[2] = {LD_EXTENSION_MAGIC, count};
    struct file_section sections[2] = {
        {0, 0, text,  (uint32_t)strlen(generator)},
        {1, 0, names, (uint32_t)layout->used * 4 },
    };

    memcpy(file + at, head, sizeof head);
    memcpy(file + at + 8, sections, count * sizeof *sections);
    for (size_t i = 0; i < layout->used; i++) {
        uint32_t offset = offset_of_name(layout, layout->names[i]);
        memcpy(file + names + 4 * i, &offset, sizeof offset);
    }
    memcpy(file + text, generator, strlen(generator));
}

int ld_encode(struct ld_work *work, void **data, size_t *size)
{
    struct layout layout;
    int rc = lay_out(work, &layout);

    if (rc)
        return rc;
    size_t count = work->item_count, base = sizeof(struct file_header) + count * sizeof(struct file_entry);
    struct file_header header = {.count = (uint32_t)count};
    header.strings = lay_out_strings(layout.strings, layout.string_count, (uint32_t)base, layout.order);
    header.flags = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 2 : 3;
    header.extension = ((uint32_t)base + header.strings + 3) & ~3u;
    memcpy(header.magic, "glibc-ld.so.cache1.1", sizeof header.magic);

    *size = header.extension + 8 + (layout.used ? 32 : 16) + 4 * layout.used + strlen(work->profile->generator);
    char *file = arena_get(&work->arena, *size);
    if (!file)
        return -ENOMEM;
    memcpy(file, &header, sizeof header);
    memcpy(file + sizeof header, layout.entries, count * sizeof *layout.entries);
    for (size_t i = 0; i < layout.string_count; i++)
        memcpy(file + *layout.strings[i].offset, layout.strings[i].text, layout.strings[i].length + 1);
    put_extension(&layout, file, header.extension);
    *data = file;
    return 0;
}
