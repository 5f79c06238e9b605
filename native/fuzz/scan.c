/*
 * Needles, with a space between them, in the first line; then a config.json of any contents. A second reader decodes
 * all escapes, wherever they stand: where it finds a needle, the scan must have, too. What is near is compared with the
 * plainest search: at each byte, letter by letter.
 */
#define _GNU_SOURCE
#include "scan.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 8 };

static size_t encode(char *out, unsigned code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

/* Reads \uXXXX at the text; how long it is, or 0. */
static size_t read_unit(const char *text, size_t size, unsigned *code)
{
    char digits[5] = "";
    if (size < 6 || text[0] != '\\' || text[1] != 'u')
        return 0;
    memcpy(digits, text + 2, 4);
    if (strspn(digits, "0123456789abcdefABCDEF") != 4)
        return 0;
    *code = (unsigned)strtoul(digits, NULL, 16);
    return 6;
}

/* Decodes the escape at the text, behind what is used of out: how long it is. What is none becomes a NUL, which no needle has. */
static size_t decode(const char *text, size_t size, char *out, size_t *used)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    unsigned code = 0, low = 0;
    size_t length = read_unit(text, size, &code);
    if (length == 0) {
        const char *found = size > 1 && text[1] ? strchr(letters, text[1]) : NULL;
        out[(*used)++] = found ? meant[found - letters] : '\0';
        return size > 1 ? 2 : 1;
    }
    if (code >= 0xd800 && code < 0xdc00 && read_unit(text + 6, size - 6, &low) && low >= 0xdc00 && low < 0xe000) {
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        length += 6;
    }
    *used += encode(out + *used, code >= 0xd800 && code < 0xe000 ? 0 : code);
    return length;
}

static bool is_near(const char *text, size_t size, const struct needle *needles, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t length = needles[i].size;
        while (length > 0 && needles[i].text[length - 1] == '/')
            length--;
        for (size_t at = 0; length > 0 && length < needles[i].size && at + length <= size; at++) {
            size_t same = 0;
            while (same < length &&
                   tolower((unsigned char)text[at + same]) == tolower((unsigned char)needles[i].text[same]))
                same++;
            if (same == length)
                return true;
        }
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct needle needles[MOST];
    size_t count = 0, used = 0;
    const char *line = (const char *)data, *stop = memchr(data, '\n', size);
    if (!stop || memchr(line, '\0', (size_t)(stop - line)))
        return 0;
    for (const char *at = line; at < stop && count < MOST;) {
        const char *space = memchr(at, ' ', (size_t)(stop - at));
        size_t length = (size_t)((space ? space : stop) - at);
        if (length > 0)
            needles[count++] = (struct needle){at, length};
        at += length + 1;
    }

    size_t left = size - (size_t)(stop + 1 - line);
    char *text = malloc(left ? left : 1),
         *decoded = malloc(left + 4); /* exactly as large, so that a step too far is seen */
    if (!text || !decoded)
        abort();
    memcpy(text, stop + 1, left);
    for (size_t at = 0; at < left;) {
        if (text[at] == '\\')
            at += decode(text + at, left - at, decoded, &used);
        else
            decoded[used++] = text[at++];
    }
    bool found = asks(text, left, needles, count);
    for (size_t i = 0; i < count; i++)
        if (!found && memmem(decoded, used, needles[i].text, needles[i].size))
            abort();
    if (nearly_asks(text, left, needles, count) != is_near(text, left, needles, count))
        abort();
    free(text);
    free(decoded);
    return 0;
}
