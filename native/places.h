/* places.c: whether this process is the host's root, and the paths of our files of this boot. */
#pragma once

#include "common.h"

#include <sys/stat.h>

/* cffi: begin */

/* Whether this process is the host's root: effective uid 0, and every uid is mapped to itself (user_namespaces(7)). */
bool is_rootful(void);

/*
 * Writes the path of the directory of our files: /run/shim for the host's root, else $XDG_RUNTIME_DIR/shim.
 * Returns 0. -ENOENT: $XDG_RUNTIME_DIR is not set, or not absolute; -EPERM: it is not a directory by is_ours();
 * -ENAMETOOLONG: ROOM is too small; others of stat(2).
 */
int run_directory(char *out, size_t room);

/*
 * Whether an open file or directory is private to this user: of this kind (S_IFREG, S_IFDIR), the user's own, and
 * writable by no other. Others may read it or pass through it: a tmpfiles line makes /run/shim with mode 0755.
 */
bool is_ours(int fd, mode_t kind);

/*
 * The name of a container's record: 16 hexadecimal digits and a NUL.
 * name: of the launcher. root: value of --root, or NULL. id: of the container, or NULL.
 */
enum { KEY_SIZE = 17 };
void record_key(char out[KEY_SIZE], const char *name, const char *root, const char *id);

/* cffi: end */

#define SHORT_NAME 0xcbf29ce484222325

/* A short name for bytes, FNV-1a of 64 bits. BEFORE: the result for the bytes before these, SHORT_NAME at first. */
uint64_t short_name(uint64_t before, const char *bytes, size_t size);

/* Whether the container with this key has a record, that is, whether a create injected devices into it. */
bool has_record(const char *key);
