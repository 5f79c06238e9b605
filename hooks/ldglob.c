/*
 * The patterns of ld.so.conf's include lines: matching a name with a component, and listing the files of a pattern.
 */
#define _GNU_SOURCE
#include "ldwork.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MATCHES = 4096, PATTERN = 4096, WILD = 32 };

/* Matches a character with a bracket expression; *pattern is behind the `[` and is moved behind the `]`. */
static bool in_class(const char *name, size_t length, unsigned char c)
{
    static const struct {
        const char *name;
        int (*test)(int);
    } classes[] = {
        {"alnum",  isalnum },
        {"alpha",  isalpha },
        {"digit",  isdigit },
        {"lower",  islower },
        {"upper",  isupper },
        {"punct",  ispunct },
        {"space",  isspace },
        {"blank",  isblank },
        {"xdigit", isxdigit},
        {"graph",  isgraph },
        {"print",  isprint },
        {"cntrl",  iscntrl }
    };

    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strlen(classes[i].name) == length && !memcmp(classes[i].name, name, length))
            return classes[i].test(c) != 0;
    return false;
}

/* Returns 1 for a match, else 0, and moves *pattern behind the bracket expression; -1: it is not closed. */
static int match_bracket(const char **pattern, unsigned char c)
{
    const char *p = *pattern + 1;
    bool negated = *p == '!' || *p == '^', hit = false;

    p += negated;
    for (bool first = true; first || *p != ']'; first = false) {
        if (!*p)
            return -1;
        size_t class = p[0] == '[' && p[1] == ':' ? strspn(p + 2, "abcdefghijklmnopqrstuvwxyz") : 0;
        if (class && p[2 + class] == ':' && p[3 + class] == ']') {
            hit |= in_class(p + 2, class, c);
            p += class + 4;
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

/* Matches a character of a name, and moves the pattern on if it matches. */
static bool match_one(const char **pattern, unsigned char c)
{
    const char *p = *pattern;

    if (*p == '[') {
        int hit = match_bracket(&p, c);
        if (hit >= 0) {
            *pattern = p;
            return hit;
        }
        p = *pattern; /* not closed: an ordinary character */
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

/* Backtracking only to the latest `*` limits the cost to pattern times name, for any pattern of an image. */
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
    matches->paths =
        arena_grow(&matches->work->arena, matches->paths, matches->count, &matches->room, sizeof *matches->paths);
    if (!matches->paths)
        return -ENOMEM;
    matches->paths[matches->count++] = path;
    return 0;
}

static int expand(struct ld_matches *matches, const char *done, const char *rest, unsigned depth);

/* Expands the component at REST, which has LENGTH bytes and a wildcard, in the directory DONE. */
static int expand_magic(struct ld_matches *matches, const char *done, const char *rest, size_t length, unsigned depth)
{
    const struct root *root = matches->work->root;
    struct arena *arena = &matches->work->arena;
    const char *component = arena_text(arena, rest, length), *next = rest + length + (rest[length] == '/');
    bool foreign;
    cleanup_fd int fd = root_directory(root, *done ? done : "/", &foreign);
    if (fd < 0)
        return fd == -ETIMEDOUT ? fd : 0;
    if (foreign) { /* its files would not be read either */
        if (!matches->work->remark.code)
            fault_set(&matches->work->remark, EXDEV, "what an include names in %s is not read", done);
        return 0;
    }
    DIR *dir = fdopendir(fd);
    if (!dir)
        return -errno;
    fd = -1;
    int rc = component ? 0 : -ENOMEM;
    for (struct dirent *entry; !rc && (entry = readdir(dir));) {
        rc = root_late(root);
        if (rc || !ld_glob(component, entry->d_name))
            continue;
        const char *path = arena_join(arena, done, entry->d_name);
        rc = !path ? -ENOMEM : *next ? expand(matches, path, next, depth) : match_add(matches, path);
    }
    closedir(dir);
    return rc;
}

/*
 * Expands REST below the path DONE, which has no slash at its end ("" is the root). A pattern comes from the image, so
 * the depth of the recursion is limited: it is the number of components with a wildcard. In other components only
 * backslashes are removed.
 */
static int expand(struct ld_matches *matches, const char *done, const char *rest, unsigned depth)
{
    size_t used = strlen(done);
    char *path = arena_get(&matches->work->arena, used + strlen(rest) + 2);

    if (!path)
        return -ENOMEM;
    memcpy(path, done, used);
    while (*rest) {
        size_t length = strcspn(rest, "/");
        bool last = !rest[length + strspn(rest + length, "/")];
        if (has_magic(rest, length) && last && rest[length])
            return 0; /* with a slash at its end it matches directories only; a plain name loses the slash */
        if (has_magic(rest, length))
            return depth == WILD ? -E2BIG : expand_magic(matches, path, rest, length, depth + 1);
        if (length)
            path[used++] = '/';
        for (size_t i = 0; i < length; i++) {
            i += rest[i] == '\\' && i + 1 < length;
            path[used++] = rest[i];
        }
        rest += length + (rest[length] == '/');
    }
    return used ? match_add(matches, path) : 0;
}

static int by_name(const void *first, const void *second)
{
    return strcmp(*(const char *const *)first, *(const char *const *)second);
}

int ld_expand(struct ld_matches *matches, const char *pattern)
{
    size_t length = strlen(pattern);

    if (length >= PATTERN)
        return 0; /* no path is that long */
    int rc = expand(matches, "", pattern, 0);
    if (!rc && matches->count)
        qsort(matches->paths, matches->count, sizeof *matches->paths, by_name);
    return rc;
}
