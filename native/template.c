/*
 * Templates: texts with named holes. Python (shim/create/answers.py) decides the content of a record and of a line of
 * the log, and stores their text in the answer; values that differ between containers are holes:
 *
 *     id, bundle, config     the container's id; the absolute paths of its bundle and config.json
 *     given                  the bundle as the command line names it
 *     identity               of config.json: device, inode, size, times
 *     requests               an object: each name, and the source of its request
 *     before N               the former value of the N-th variable, as JSON
 *     mounts, pid, parent    mount namespace; process id; that of the parent
 *     time
 */
#define _GNU_SOURCE
#include "template.h"
#include "report.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

static void add(struct line *line, const char *text, size_t size)
{
    line->failed = line->failed || size > sizeof line->text - line->used;
    if (line->failed)
        return;
    memcpy(line->text + line->used, text, size);
    line->used += size;
}

__attribute__((format(printf, 2, 3))) static void add_form(struct line *line, const char *form, ...)
{
    char text[2 * PATH_MAX];
    va_list arguments;
    va_start(arguments, form);
    int size = vsnprintf(text, sizeof text, form, arguments);
    va_end(arguments);
    line->failed = line->failed || size < 0 || size >= (int)sizeof text;
    if (!line->failed)
        add(line, text, (size_t)size);
}

/* name -> source of each request, as an object */
static void add_requests(struct line *line, const struct values *values)
{
    for (unsigned i = 0; i < values->question->count; i++) {
        const struct request *request = &values->question->requests[i];
        add_form(line, "%s\"%.*s\":\"", i ? "," : "{", (int)request->name.size, request->name.text);
        if (request->key.text)
            add_form(line, "annotation %.*s\"", (int)request->key.size, request->key.text);
        else
            add_form(line, "--device\"");
    }
    add_form(line, "}");
}

/* The former value of a variable, as JSON. */
static void add_before(struct line *line, unsigned number, const struct values *values)
{
    struct span before =
        number < values->inserts->variable_count ? values->inserts->variables[number].before : (struct span){0};
    const char *equals = before.text ? memchr(before.text, '=', before.size) : NULL;
    if (!before.text)
        add_form(line, "null");
    else if (!equals)
        add_form(line, "\"\"");
    else {
        add_form(line, "\"");
        add(line, equals + 1, (size_t)(before.text + before.size - equals - 1));
    }
}

static void add_identity(struct line *line, const struct stat *status)
{
    add_form(line, "[%ju,%ju,%jd,%jd%09ld,%jd%09ld]", (uintmax_t)status->st_dev, (uintmax_t)status->st_ino,
             (intmax_t)status->st_size, (intmax_t)status->st_mtim.tv_sec, status->st_mtim.tv_nsec,
             (intmax_t)status->st_ctim.tv_sec, status->st_ctim.tv_nsec);
}

static void add_mounts(struct line *line)
{
    char text[64];
    ssize_t size = readlink("/proc/self/ns/mnt", text, sizeof text);
    add(line, text, size < 0 ? 0 : (size_t)size);
}

static void fill(struct line *line, struct span hole, const struct values *values)
{
    char name[16], now[24];
    unsigned number;
    snprintf(name, sizeof name, "%.*s", (int)(hole.size < sizeof name ? hole.size : 0), hole.text);
    if (strcmp(name, "id") == 0)
        add_form(line, "%s", values->call->id);
    else if (strcmp(name, "bundle") == 0)
        add_form(line, "%s", values->bundle);
    else if (strcmp(name, "given") == 0)
        add_form(line, "%s", values->call->bundle ? values->call->bundle : ".");
    else if (strcmp(name, "config") == 0)
        add_form(line, "%s", values->config);
    else if (strcmp(name, "identity") == 0)
        add_identity(line, &values->written);
    else if (strcmp(name, "requests") == 0)
        add_requests(line, values);
    else if (strcmp(name, "mounts") == 0)
        add_mounts(line);
    else if (strcmp(name, "pid") == 0)
        add_form(line, "%d", (int)getpid());
    else if (strcmp(name, "parent") == 0)
        add_form(line, "%d", (int)getppid());
    else if (strcmp(name, "time") == 0) {
        stamp(now, time(NULL));
        add_form(line, "%s", now);
    } else if (sscanf(name, "before %u", &number) == 1)
        add_before(line, number, values);
    else
        line->failed = true;
}

bool template_write(struct line *line, struct fields parts, const struct values *values)
{
    line->used = 0;
    line->failed = false;
    for (unsigned left = field_count(&parts); left; left--) {
        struct span text = field(&parts), hole = field(&parts);
        add(line, text.text, text.size);
        if (hole.size)
            fill(line, hole, values);
    }
    return !line->failed && fields_done(&parts);
}
