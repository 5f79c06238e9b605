/*
 * The request scan: could these bytes hold a request?
 *
 * A request is found by its needle, a text that stands in each one, looked for in the raw bytes, wherever it stands: no
 * JSON is parsed, so nothing about duplicates, order, nesting or faults of the document can hide it. What can hide a
 * needle from a search is an escape that spells one of its characters otherwise; so an escape that decodes to a
 * character of some needle counts as a request. Python's reader takes strict UTF-8 only, in which a character has no
 * second encoding: nothing else is left.
 *
 * A second search is for keys of which a warning says that they were probably meant to be requests. Nothing hangs on it
 * but that warning, so it may miss some.
 */
#define _GNU_SOURCE
#include "scan.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define NEEDLE(text) {text, sizeof text - 1}

/* In Python: Settings.needles() of shim/config/settings.py, with every source switched on; a test compares the two. */
const struct needle built_in_needles[BUILT_IN_NEEDLES] = {
    NEEDLE("cdi.k8s.io/"),
    NEEDLE("NVIDIA_VISIBLE_DEVICES"),
    NEEDLE("AMD_VISIBLE_DEVICES"),
    NEEDLE("nvidia-container-devices"),
};

/* The bytes that needles are made of. Of what is not ASCII it is only known whether there is any. */
struct alphabet {
    bool ascii[128];
    bool others;
};

static struct alphabet alphabet_of(const struct needle *needles, size_t count)
{
    struct alphabet alphabet = {.others = false};
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < needles[i].size; j++) {
            unsigned char c = (unsigned char)needles[i].text[j];
            if (c < 0x80)
                alphabet.ascii[c] = true;
            else
                alphabet.others = true;
        }
    }
    return alphabet;
}

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

/* The character that a backslash and this letter stand for (RFC 8259, section 7), NUL for a letter that has none. */
static char short_escape(char letter)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char *found = memchr(letters, letter, sizeof letters - 1);
    return found ? meant[found - letters] : '\0';
}

/*
 * Whether the escape whose backslash stands before `text` could spell a part of a needle. Encoders write \u003c,
 * \u003e, \u0026, control characters and \u2028 of themselves: these are nothing special while no needle holds them.
 */
static bool hides(const char *text, const char *end, const struct alphabet *alphabet)
{
    if (text == end)
        return false;
    if (*text != 'u')
        return alphabet->ascii[(unsigned char)short_escape(*text)];
    int code = four_digits(text + 1, end);
    return code < 0 || (code < 0x80 ? alphabet->ascii[code] : alphabet->others);
}

bool asks(const char *text, size_t size, const struct needle *needles, size_t count)
{
    const char *end = text + size;
    if (count == 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if (memmem(text, size, needles[i].text, needles[i].size))
            return true;
    struct alphabet alphabet = alphabet_of(needles, count);
    for (const char *at = text; (at = memchr(at, '\\', (size_t)(end - at))) != NULL; at += 2) {
        if (hides(at + 1, end, &alphabet))
            return true;
        if (end - at < 2)
            break;
    }
    return false;
}

/*
 * Whether the text holds a stem in letters of any case (Horspool's search: where the last byte does not match, on by as much
 * as the stem allows). Each create in which nothing asks pays for it, so it reads few of the bytes.
 */
static bool holds(const char *text, size_t size, const char *stem, size_t length)
{
    size_t steps[256];
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        steps[i] = length;
    for (size_t i = 0; i + 1 < length; i++) {
        steps[tolower((unsigned char)stem[i])] = length - 1 - i;
        steps[toupper((unsigned char)stem[i])] = length - 1 - i;
    }
    if (size < length)
        return false;
    const char *end = text + size;
    char lower = (char)tolower((unsigned char)stem[length - 1]), upper = (char)toupper((unsigned char)stem[length - 1]);
    for (const char *last = text + length - 1; last < end;) {
        if ((*last == lower || *last == upper) && strncasecmp(last - (length - 1), stem, length) == 0)
            return true;
        size_t step = steps[(unsigned char)*last];
        if (step >= (size_t)(end - last))
            break;
        last += step;
    }
    return false;
}

bool nearly_asks(const char *text, size_t size, const struct needle *needles, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t length = needles[i].size;
        while (length > 0 && needles[i].text[length - 1] == '/')
            length--;
        if (length > 0 && length < needles[i].size && holds(text, size, needles[i].text, length))
            return true;
    }
    return false;
}
