/* arena.c: memory that is freed at once. NULL means no memory, or over the limit, where no other meaning is given. */
#pragma once

#include "common.h"

struct arena {
    struct arena_chunk *chunks;
    size_t taken, limit; /* bytes; a limit of 0 is none */
};

/* How many bytes are left of the limit, SIZE_MAX without one. */
size_t arena_room(const struct arena *arena);

/* Zeroed memory, aligned to 16 bytes. */
void *arena_get(struct arena *arena, size_t bytes);

/* A copy of LENGTH bytes of a text, with a NUL. */
char *arena_text(struct arena *arena, const char *text, size_t length);

/* "folder/name" */
char *arena_join(struct arena *arena, const char *folder, const char *name);

/*
 * An array with room for a further item. old, used, *room: the array, its items, the number of items that it has room
 * for, which is updated. size: of one item. Returns the old array, or a larger copy; the old array stays in the arena,
 * so at most twice the memory is used.
 */
void *arena_grow(struct arena *arena, void *old, size_t used, size_t *room, size_t size);

/* Moves all memory of FROM, which is empty then, to INTO. */
void arena_merge(struct arena *into, struct arena *from);

/* Frees all of it. */
void arena_free(struct arena *arena);
