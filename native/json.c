/*
 * A pull reader for JSON of others: the state on a hook's stdin, a bundle's config.json.
 *
 * The caller reads the values that it expects, in the order of the text, and skips the rest. Nothing is allocated, no
 * function recurses: nesting takes a bit of memory for each open bracket, so the bits limit the depth. The first syntax
 * error sets `failed`, after which every function returns as if the text had ended.
 *
 *     json_open(&json, text, size);
 *     if (json_enter(&json, '{'))
 *         while (json_member(&json, name, sizeof name))
 *             if (...) json_string(&json, value, sizeof value);
 *             else     json_skip(&json);
 */
#define _GNU_SOURCE
#include "json.h"

#include <string.h>

enum { DEPTH = 128 };

void json_open(struct json *json, const char *text, size_t size)
{
    *json = (struct json){.at = text, .end = text + size};
}

static bool fail(struct json *json)
{
    json->failed = true;
    json->at = json->end;
    return false;
}

/* The next character that is not white space, 0 at the end; it is not consumed. */
static char peek(struct json *json)
{
    while (json->at < json->end && strchr(" \t\r\n", *json->at) && *json->at)
        json->at++;
    return json->at < json->end ? *json->at : 0;
}

static bool eat(struct json *json, char c)
{
    if (peek(json) != c || !c)
        return false;
    json->at++;
    return true;
}

char json_next(struct json *json)
{
    return json->failed ? 0 : peek(json);
}

bool json_enter(struct json *json, char open)
{
    if (json->failed || !eat(json, open))
        return false;
    if (json->depth == DEPTH)
        return fail(json);
    unsigned bit = json->depth % 32;
    uint32_t *word = &json->objects[json->depth / 32];
    *word = open == '{' ? *word | 1u << bit : *word & ~(1u << bit);
    json->depth++;
    json->fresh = true;
    return true;
}

bool json_more(struct json *json)
{
    if (json->failed || !json->depth)
        return false;
    unsigned top = json->depth - 1;
    bool object = json->objects[top / 32] >> top % 32 & 1, fresh = json->fresh;

    json->fresh = false;
    if (eat(json, object ? '}' : ']')) {
        json->depth--;
        return false;
    }
    if (!fresh && !eat(json, ','))
        return fail(json);
    char next = peek(json);
    return next && next != '}' && next != ']' && next != ',' ? true : fail(json);
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Four hexadecimal digits, or -1. */
static int32_t unit(struct json *json)
{
    int32_t value = 0;

    for (int i = 0; i < 4; i++) {
        int digit = json->at < json->end ? hex(*json->at) : -1;
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
        json->at++;
    }
    return value;
}

struct text {
    char *into;
    size_t used, room;
    bool full;
};

static void put(struct text *text, uint32_t byte)
{
    if (text->used + 1 < text->room)
        text->into[text->used++] = (char)byte;
    else
        text->full = true;
}

static void put_point(struct text *text, uint32_t point)
{
    if (point < 0x80) {
        put(text, point);
        return;
    }
    int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};
    put(text, lead[more] | point >> 6 * more);
    while (more--)
        put(text, 0x80 | (point >> 6 * more & 0x3f));
}

/* What follows `\u`, a pair of surrogates included; a lone one becomes U+FFFD, as in Go. */
static bool put_escape(struct json *json, struct text *text)
{
    int32_t first = unit(json);

    if (first < 0)
        return false;
    if (first >= 0xd800 && first < 0xdc00 && json->end - json->at >= 6 && json->at[0] == '\\' && json->at[1] == 'u') {
        const char *here = json->at;
        json->at += 2;
        int32_t second = unit(json);
        if (second < 0)
            return false;
        if (second >= 0xdc00 && second < 0xe000) {
            put_point(text, 0x10000u + ((uint32_t)(first - 0xd800) << 10) + (uint32_t)(second - 0xdc00));
            return true;
        }
        json->at = here;
    }
    put_point(text, first >= 0xd800 && first < 0xe000 ? 0xfffd : (uint32_t)first);
    return true;
}

static bool put_quoted(struct json *json, struct text *text)
{
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    char c = json->at < json->end ? *json->at++ : 0;
    const char *name = c ? strchr(names, c) : NULL;

    if (c == 'u')
        return put_escape(json, text);
    if (!name)
        return false;
    put(text, (uint8_t)meanings[name - names]);
    return true;
}

bool json_string(struct json *json, char *into, size_t room)
{
    struct text text = {.into = into, .room = room};

    if (room)
        *into = 0;
    if (json->failed)
        return false;
    if (!eat(json, '"')) {
        json_skip(json);
        return false;
    }
    while (json->at < json->end) {
        unsigned char c = (unsigned char)*json->at++;
        if (c == '"') {
            bool good = !text.full && room && !memchr(into, 0, text.used);
            if (room)
                into[good ? text.used : 0] = 0;
            return good;
        }
        if (c < ' ' || (c == '\\' && !put_quoted(json, &text)))
            return fail(json);
        if (c != '\\')
            put(&text, c);
    }
    return fail(json);
}

bool json_member(struct json *json, char *name, size_t room)
{
    if (!json_more(json))
        return false;
    if (peek(json) != '"')
        return fail(json);
    json_string(json, name, room);
    return eat(json, ':') ? !json->failed : fail(json);
}

bool json_integer(struct json *json, int64_t *value)
{
    char first = json_next(json);
    bool negative = first == '-';
    uint64_t number = 0;
    unsigned digits = 0;

    if (!negative && !(first >= '0' && first <= '9')) {
        json_skip(json);
        return false;
    }
    const char *start = json->at;
    for (const char *c = json->at + negative; c < json->end && *c >= '0' && *c <= '9'; c++, digits++)
        number = digits < 18 ? number * 10 + (uint64_t)(*c - '0') : number;
    json_skip(json);
    if (json->failed || !digits || digits > 18 || json->at != start + negative + digits)
        return false;
    *value = negative ? -(int64_t)number : (int64_t)number;
    return true;
}

static bool skip_number(struct json *json)
{
    size_t length = 0;

    while (json->at + length < json->end && memchr("+-.0123456789eE", json->at[length], 15))
        length++;
    json->at += length;
    return length ? true : fail(json);
}

static bool skip_word(struct json *json)
{
    static const char *const words[] = {"true", "false", "null"};

    for (size_t i = 0; i < 3; i++) {
        size_t length = strlen(words[i]);
        if ((size_t)(json->end - json->at) >= length && !memcmp(json->at, words[i], length)) {
            json->at += length;
            return true;
        }
    }
    return false;
}

static void skip_scalar(struct json *json)
{
    char unused[1];

    if (json_next(json) == '"')
        json_string(json, unused, 0);
    else if (!skip_word(json))
        skip_number(json);
}

void json_skip(struct json *json)
{
    unsigned depth = json->depth;
    char name[1];

    do {
        if (json->depth > depth) {
            unsigned top = json->depth - 1;
            bool object = json->objects[top / 32] >> top % 32 & 1;
            if (!(object ? json_member(json, name, 0) : json_more(json)))
                continue;
        }
        if (!json_enter(json, '{') && !json_enter(json, '['))
            skip_scalar(json);
    } while (!json->failed && json->depth > depth);
}

bool json_done(struct json *json)
{
    return !json->failed && !json->depth && !peek(json);
}
