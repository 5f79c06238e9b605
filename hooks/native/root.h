/*
 * Everything below a container's root, and the ld.so.cache that is written there.
 *
 * Error rule: a function that can fail returns 0 (or a value >= 0 that it documents) and a negative errno otherwise.
 * Words for a human are written once, by the function that knows what was being done, into a `struct fault`.
 */
#pragma once

#include "native.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* ---- fault.c: the one way to say what went wrong ---- */

struct fault {
    int code;        /* errno value, 0 = nothing happened */
    char text[300];  /* one line, control characters replaced */
};

/* Writes the text (the errno's own words are appended) and returns -code. A null fault is allowed. */
int fault_set(struct fault *fault, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));


/* ---- arena.c: memory that is freed at once ---- */

struct arena {
    struct arena_chunk *chunks;
    size_t taken, limit;
};

void *arena_get(struct arena *arena, size_t bytes);  /* zeroed, aligned; NULL: out of memory or over the limit */
char *arena_text(struct arena *arena, const char *text, size_t length);
char *arena_join(struct arena *arena, const char *folder, const char *name);  /* folder/name */
void *arena_grow(struct arena *arena, void *old, size_t used, size_t *room, size_t size);
void arena_merge(struct arena *into, struct arena *from);
void arena_free(struct arena *arena);

/* ---- root.c: the root handle ---- */

struct root {
    int fd;            /* the root directory; the only descriptor that paths start from */
    bool one_mount;    /* writes stay on the mount of the root itself: never into a volume or a host directory */
    bool sync;         /* fsync what is written */
    uid_t uid;         /* owner of what is made, or (uid_t)-1: whoever we are */
    gid_t gid;
    int64_t deadline;  /* CLOCK_MONOTONIC nanoseconds after which every function answers -ETIMEDOUT, 0: none */
};

#define ROOT_NOBODY ((uid_t)-1)

int root_open(struct root *root, const char *path, struct fault *fault);
void root_close(struct root *root);
void root_limit(struct root *root, unsigned milliseconds);
int root_late(const struct root *root);

int root_at(const struct root *root, const char *path, int flags, uint64_t resolve);
int root_stat(const struct root *root, const char *path, struct stat *st);
int root_lstat(const struct root *root, const char *path, struct stat *st);
int root_directory(const struct root *root, const char *path, bool *foreign);
int root_regular(const struct root *root, const char *path, struct stat *st);
int root_entry(int directory, const char *name, bool foreign, struct stat *st);
ssize_t root_read(const struct root *root, const char *path, char *into, size_t room);

int root_mkdir(const struct root *root, const char *path, mode_t mode);
int root_replace(const struct root *root, const char *path, const void *data, size_t size, mode_t mode);
int root_link(const struct root *root, const char *path, const char *target);
int root_link_new(const struct root *root, int directory, const char *name, const char *target);
int root_link_at(const struct root *root, int directory, const char *name, const char *target);
int root_unlink(const struct root *root, const char *path);
int root_parent(const struct root *root, const char *path, const char **base);
