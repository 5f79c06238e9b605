/*
 * Memory that is freed at once.
 *
 * A cache is built from thousands of small strings that are all freed together, so they come from a few large chunks. A
 * hostile root could make this process large: over the limit the result is NULL, as without memory.
 */
#define _GNU_SOURCE
#include "arena.h"

#include <stdlib.h>
#include <string.h>

struct arena_chunk {
    struct arena_chunk *next;
    size_t used, size;
    _Alignas(16) unsigned char bytes[];
};

enum { CHUNK = 64 * 1024 };

size_t arena_room(const struct arena *arena)
{
    if (!arena->limit)
        return SIZE_MAX;
    return arena->limit > arena->taken ? arena->limit - arena->taken : 0;
}

static struct arena_chunk *chunk_new(struct arena *arena, size_t bytes)
{
    size_t size = bytes > CHUNK ? bytes : CHUNK;

    if (size > arena_room(arena))
        return NULL;
    struct arena_chunk *chunk = calloc(1, sizeof *chunk + size);
    if (!chunk)
        return NULL;
    arena->taken += size;
    chunk->size = size;
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    return chunk;
}

void *arena_get(struct arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX - 15)
        return NULL;
    bytes = (bytes + 15) & ~(size_t)15;

    struct arena_chunk *chunk = arena->chunks;
    if (!chunk || bytes > chunk->size - chunk->used)
        chunk = chunk_new(arena, bytes);
    if (!chunk)
        return NULL;
    void *got = chunk->bytes + chunk->used;
    chunk->used += bytes;
    return got;
}

char *arena_text(struct arena *arena, const char *text, size_t length)
{
    char *copy = arena_get(arena, length + 1);

    if (copy)
        memcpy(copy, text, length);
    return copy;
}

char *arena_join(struct arena *arena, const char *folder, const char *name)
{
    size_t folder_size = strlen(folder), name_size = strlen(name);
    char *path = arena_get(arena, folder_size + name_size + 2);

    if (!path)
        return NULL;
    memcpy(path, folder, folder_size);
    path[folder_size] = '/';
    memcpy(path + folder_size + 1, name, name_size);
    return path;
}

void *arena_grow(struct arena *arena, void *old, size_t used, size_t *room, size_t size)
{
    if (used < *room)
        return old;
    size_t more = *room ? *room * 2 : 16;
    void *array = more > SIZE_MAX / size ? NULL : arena_get(arena, more * size);
    if (!array)
        return NULL;
    if (used)
        memcpy(array, old, used * size);
    *room = more;
    return array;
}

void arena_merge(struct arena *into, struct arena *from)
{
    struct arena_chunk **last = &into->chunks;

    while (*last)
        last = &(*last)->next;
    *last = from->chunks;
    into->taken += from->taken;
    *from = (struct arena){0};
}

void arena_free(struct arena *arena)
{
    while (arena->chunks) {
        struct arena_chunk *next = arena->chunks->next;
        free(arena->chunks);
        arena->chunks = next;
    }
    arena->taken = 0;
}
