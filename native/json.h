/* json.c: a pull reader; json.c shows its use. After the first error all results are those of a text that has ended. */
#pragma once

#include "common.h"

struct json {
    const char *at, *end;
    bool failed, fresh;
    unsigned depth;
    uint32_t objects[4]; /* a bit for each open bracket: it is an object's */
};

/* Begins to read SIZE bytes, which must live as long as the reader. */
void json_open(struct json *json, const char *text, size_t size);

/* The next character that is not white space, 0 at the end; it is not consumed. */
char json_next(struct json *json);

/* Enters the object ('{') or array ('[') that comes next. False, and nothing consumed, when another value comes. */
bool json_enter(struct json *json, char open);

/* Whether the array or object that was entered has another item; leaves it when not. */
bool json_more(struct json *json);

/* Goes to the next member of an object, and copies its name, "" when it does not fit. False: none is left. */
bool json_member(struct json *json, char *name, size_t room);

/*
 * Reads a string. False, and `into` empty, for a value of another type, which is skipped, and for a text that is longer
 * than the room or holds a NUL, which is no error.
 */
bool json_string(struct json *json, char *into, size_t room);

/* Reads a whole number. False, and the value skipped, for anything else or one of more than 18 digits. */
bool json_integer(struct json *json, int64_t *value);

/* Skips a value. */
void json_skip(struct json *json);

/* Whether the text was a single value and nothing else. */
bool json_done(struct json *json);
