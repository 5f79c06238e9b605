/* report.c: the error line of a launcher or hook that cannot go on. */
#pragma once

#include "common.h"

/* cffi: begin */

/*
 * What an errno value means for a file that was to be used, in words that no engine turns into an exit status. The same
 * words stand in Python (shim/base/paths.py), and a test compares the two.
 */
const char *problem(int error);

/*
 * Writes text into out as the inside of a JSON string, NUL-terminated and cut at a whole character when ROOM is too small.
 * Control characters and bytes that are not UTF-8 become escapes. Quotes and backslashes are escaped when `quotes`.
 */
void escape(char *out, size_t room, const char *text, bool quotes);

/* Writes the time, in seconds since 1970, in RFC 3339 and UTC: OUT has room for 21 bytes. */
void stamp(char *out, long now);

/* cffi: end */

/* Bytes of the UTF-8 character that a text begins with, 0 when it begins with none. The text ends with a NUL. */
size_t character_size(const char *text);

/*
 * Writes one line to stderr and, when LOG is not NULL, first one in runc's form to that file: JSON when LOG_FORMAT is
 * "json". What cannot be written is lost.
 */
void report(const char *log, const char *log_format, const char *message);
