/*
 * The request scan: could these bytes hold a request?
 *
 * A request is found by its needle, looked for in the raw bytes, wherever it stands: no JSON is parsed, so nothing
 * about duplicates, order, nesting or faults of the document can hide it. What can hide a needle from a search is
 * an escape that spells one of its characters otherwise; so an escape that decodes to such a character counts as a
 * request. Python's reader takes strict UTF-8 only, in which a character of ASCII has no second encoding: nothing
 * else is left.
 *
 * The annotation prefix is the only source of requests in config.json; with a configuration file, which may name
 * other prefixes, the launcher asks Python without a scan.
 */
#define _GNU_SOURCE
#include "native.h"

#include <string.h>

static const char needle[] = "cdi.k8s.io/";

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The code that four hexadecimal digits stand for, or -1. */
static int four_digits(const char *text, const char *end)
{
    int code = 0;
    if (end - text < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(text[i]);
        if (digit < 0)
            return -1;
        code = code * 16 + digit;
    }
    return code;
}

/*
 * Whether the escape whose backslash stands before `text` could spell a part of a needle. Encoders write \u003c,
 * \u003e, \u0026, control characters and \u2028 of themselves: these are nothing special.
 */
static bool hides(const char *text, const char *end)
{
    if (text == end)
        return false;
    if (*text != 'u')
        return *text == '/'; /* the one character of a needle that has an escape of its own */
    int code = four_digits(text + 1, end);
    return code < 0 || (code > 0 && code < 0x80 && strchr(needle, code));
}

bool asks(const char *text, size_t size)
{
    const char *end = text + size;
    if (memmem(text, size, needle, sizeof needle - 1))
        return true;
    for (const char *at = text; (at = memchr(at, '\\', (size_t)(end - at))) != NULL; at += 2) {
        if (hides(at + 1, end))
            return true;
        if (end - at < 2)
            break;
    }
    return false;
}
