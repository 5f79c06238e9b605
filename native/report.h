/* report.c: the error line of a launcher or hook that cannot go on. */
#pragma once

#include "common.h"

/* cffi: begin */

/*
 * The meaning of an errno value for a file, in words that no engine turns into an exit status. Python has the same
 * words (shim/base/paths.py), and a test compares the two.
 */
const char *problem(int error);

/*
 * Writes text into out as the inside of a JSON string, NUL-terminated and cut at a whole character when ROOM is too
 * small. Control characters and bytes that are not UTF-8 become escapes. Quotes and backslashes are escaped when
 * `quotes`.
 */
void escape(char *out, size_t room, const char *text, bool quotes);

/* Writes the time, in seconds since 1970, in RFC 3339 and UTC: OUT has room for 21 bytes. */
void stamp(char *out, long now);

/* cffi: end */

/* Size of the UTF-8 character at the beginning of a text, 0 when there is none. The text ends with a NUL. */
size_t character_size(const char *text);

/*
 * Writes a line to stderr and, when LOG is not NULL, before that a line in runc's form to that file: JSON when
 * LOG_FORMAT is "json". Errors of writing are ignored.
 */
void report(const char *log, const char *log_format, const char *message);
