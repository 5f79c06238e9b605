/* ownfiles.c: files of ours, and files of engines that are replaced by an edited text. */
#pragma once

#include "insert.h"

#include <sys/stat.h>

/* Opens a directory of ours below that of this boot; -1 when it is missing or not ours. */
int open_ours(const char *name);

/*
 * Reads a file of ours in an open directory. Returns the number of bytes, at most ROOM: a file that fills the room may
 * be longer. -1: it is not ours, or cannot be read.
 */
ssize_t read_ours(int directory, const char *name, char *bytes, size_t room);

/* Whether all bytes of a text could be written. */
bool write_all(int fd, const char *text, size_t size);

/* The text of a file with inserts. */
struct edited {
    const struct inserts *inserts;
    const struct json_tree *tree;
    size_t size;               /* bytes of the text that was read */
    const struct stat *status; /* of the file when it was read */
};

/* Writes the text with its inserts to a descriptor; whether all of it could be written. */
bool write_edited(int fd, const struct edited *edited);

/*
 * Reads a file of an engine: its status, and its bytes with a NUL behind them, for which `text` has one byte more than
 * `room`. False unless it is a regular file with fewer bytes than `room`.
 */
bool read_engine_file(const char *path, char *text, size_t room, struct stat *status, size_t *size);

/*
 * Replaces a file by its edited text, unless it is another file than the file that was read. Owner and mode stay.
 * False, and nothing has changed, on failure. `written`: the status of the new file.
 */
bool replace_edited(const char *path, const struct edited *edited, struct stat *written);
