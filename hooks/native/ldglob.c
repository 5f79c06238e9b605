/*
 * The patterns of ld.so.conf's include lines: one name against one component, and all files that a pattern names.
 */
#define _GNU_SOURCE
#include "native.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MATCHES = 4096, PATTERN = 4096 };

/* Matches one character against a bracket expression; *pattern is behind the `[` and is moved behind the `]`. */
static bool in_class(const char *name, size_t length, unsigned char c)
{
    static const struct {
        const char *name;
        int (*test)(int);
    } classes[] = {{"alnum", isalnum}, {"alpha", isalpha}, {"digit", isdigit}, {"lower", islower}, {"upper", isupper},
                   {"punct", ispunct}, {"space", isspace}, {"blank", isblank}, {"xdigit", isxdigit}, {"graph", isgraph},
                   {"print", isprint}, {"cntrl", iscntrl}};

    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strlen(classes[i].name) == length && !memcmp(classes[i].name, name, length))
            return classes[i].test(c) != 0;
    return false;
}

/* Answers 1 or 0 for a match or none and moves *pattern behind the bracket expression; -1: it is not closed. */
static int match_bracket(const char **pattern, unsigned char c)
{
    const char *p = *pattern + 1;
    bool negated = *p == '!' || *p == '^', hit = false;

    p += negated;
    for (bool first = true; first || *p != ']'; first = false) {
        if (!*p)
            return -1;
        const char *end;
        if (p[0] == '[' && p[1] == ':' && (end = strstr(p + 2, ":]"))) {
            hit |= in_class(p + 2, (size_t)(end - p - 2), c);
            p = end + 2;
            continue;
        }
        if (*p == '\\' && p[1])
            p++;
        unsigned char low = (unsigned char)*p++, high = low;
        if (p[0] == '-' && p[1] && p[1] != ']') {
            p += p[1] == '\\' && p[2] ? 2 : 1;
            high = (unsigned char)*p++;
        }
        hit |= low <= c && c <= high;
    }
    *pattern = p + 1;
    return hit != negated;
}

/* Matches one character of a name, and moves the pattern on when it does. */
static bool match_one(const char **pattern, unsigned char c)
{
    const char *p = *pattern;

    if (*p == '[') {
        int hit = match_bracket(&p, c);
        if (hit >= 0) {
            *pattern = p;
            return hit;
        }
        p = *pattern;  /* not closed: an ordinary character */
    } else if (*p == '?') {
        *pattern = p + 1;
        return true;
    } else if (*p == '\\' && p[1]) {
        p++;
    }
    if ((unsigned char)*p != c || !c)
        return false;
    *pattern = p + 1;
    return true;
}

/* Whether a file name matches one component of a glob pattern. Going back only to the latest `*` keeps the cost at
 * pattern times name, whatever the image's author wrote. */
bool ld_glob(const char *pattern, const char *name)
{
    const char *star = NULL, *back = NULL;

    if (*name == '.' && *pattern != '.' && !(pattern[0] == '\\' && pattern[1] == '.'))
        return false;
    while (*name) {
        if (*pattern == '*') {
            star = ++pattern;
            back = name;
        } else if (*pattern && match_one(&pattern, (unsigned char)*name)) {
            name++;
        } else if (star) {
            pattern = star;
            name = ++back;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}

static bool has_magic(const char *text, size_t length)
{
    return memchr(text, '*', length) || memchr(text, '?', length) || memchr(text, '[', length);
}

/* ---- the files that a pattern names ---- */

static int match_add(struct ld_matches *matches, const char *path)
{
    if (matches->count >= MATCHES)
        return -E2BIG;
    matches->paths = arena_grow(&matches->work->arena, matches->paths, matches->count, &matches->room, sizeof *matches->paths);
    if (!matches->paths)
        return -ENOMEM;
    matches->paths[matches->count++] = path;
    return 0;
}

static int expand(struct ld_matches *matches, const char *done, const char *rest);

/* The rest of a pattern, without the component that was just dealt with. */
static int expand_below(struct ld_matches *matches, const char *path, const char *rest)
{
    return *rest ? expand(matches, path, rest) : match_add(matches, path);
}

static int expand_magic(struct ld_matches *matches, const char *done, const char *component, const char *rest)
{
    bool foreign;
    cleanup_fd int fd = root_directory(matches->work->root, *done ? done : "/", &foreign);
    if (fd < 0)
        return fd == -ETIMEDOUT ? fd : 0;
    DIR *dir = fdopendir(fd);
    if (!dir)
        return -errno;
    fd = -1;
    int rc = 0;
    for (struct dirent *entry; !rc && (entry = readdir(dir));) {
        if (!ld_glob(component, entry->d_name))
            continue;
        const char *path = arena_join(&matches->work->arena, done, entry->d_name);
        rc = path ? expand_below(matches, path, rest) : -ENOMEM;
    }
    closedir(dir);
    return rc;
}

/* Expands the first component of REST below the path DONE, which has no slash at its end ("" is the root). */
static int expand(struct ld_matches *matches, const char *done, const char *rest)
{
    char component[PATTERN];
    size_t length = strcspn(rest, "/");

    if (length >= sizeof component)
        return 0;
    memcpy(component, rest, length);
    component[length] = 0;
    rest += length + (rest[length] == '/');
    if (!length)
        return *rest ? expand(matches, done, rest) : 0;
    if (has_magic(component, length))
        return expand_magic(matches, done, component, rest);

    size_t kept = 0;  /* a plain name: only backslashes are to be taken away */
    for (const char *c = component; *c; c++) {
        c += *c == '\\' && c[1];
        component[kept++] = *c;
    }
    component[kept] = 0;
    const char *path = arena_join(&matches->work->arena, done, component);
    return path ? expand_below(matches, path, rest) : -ENOMEM;
}

static int by_name(const void *one, const void *two)
{
    return strcmp(*(const char *const *)one, *(const char *const *)two);
}

/* Finds the files of the root that a pattern with an absolute path names, in the order of their paths. */
int ld_expand(struct ld_matches *matches, const char *pattern)
{
    int rc = expand(matches, "", pattern);

    if (!rc && matches->count)
        qsort(matches->paths, matches->count, sizeof *matches->paths, by_name);
    return rc;
}
