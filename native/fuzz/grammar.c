/* A command line of any words, one a line: the first names the low-level runtime. */
#define _GNU_SOURCE
#include "call.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 64 };

static void check(bool is_right)
{
    if (!is_right)
        abort();
}

/* Whether this is a word of the command line, or the end of one. NULL is what it does not say. */
static bool is_said(const char *text, int argc, char *const argv[])
{
    for (int i = 0; i < argc; i++)
        if (text >= argv[i] && text <= argv[i] + strlen(argv[i]))
            return true;
    return !text;
}

static bool is_same(const char *one, const char *two)
{
    return one == two || (one && two && strcmp(one, two) == 0);
}

static void check_call(enum grammar grammar, int argc, char *const argv[])
{
    struct call call, again;
    char *kept[MOST + 1], *devices[MOST], *rest[MOST + 1], *none[MOST];
    parse_call(grammar, argc, argv, &call, kept, devices);
    check(call.verb ? call.at > 0 && call.at < argc && argv[call.at] == call.verb : call.at == 0);
    const char *const values[] = {call.bundle, call.config, call.process,    call.resources, call.id,
                                  call.root,   call.log,    call.log_format, call.unknown};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        check(is_said(values[i], argc, argv));
    check(!call.injects || !strcmp(call.verb, "create") || !strcmp(call.verb, "run") || !strcmp(call.verb, "restore"));
    check(!call.process || (*call.process && !strcmp(call.verb, "exec") && !call.injects));
    check(!call.resources || (*call.resources && !strcmp(call.verb, "update") && !call.injects));

    /* each of our options is one word or two; all others are there, in order */
    check(call.kept <= argc && argc <= call.kept + 2 * call.devices && !kept[call.kept]);
    int next = 0;
    for (int i = 0; i < call.kept; i++, next++) {
        while (next < argc && kept[i] != argv[next])
            next++;
        check(next < argc);
    }
    for (int i = 0; i < call.devices; i++)
        check(devices[i] && is_said(devices[i], argc, argv));

    /* what is left says the same, and holds nothing of ours */
    parse_call(grammar, call.kept, kept, &again, rest, none);
    check(again.kept == call.kept && again.injects == call.injects && is_same(again.verb, call.verb));
    /* but for what an unknown option may have for its value */
    check(call.unknown || !call.injects || again.devices == 0);
    check(is_same(again.bundle, call.bundle) && is_same(again.config, call.config) && is_same(again.id, call.id));
    check(is_same(again.root, call.root) && is_same(again.log, call.log) && is_same(again.process, call.process));
    check(is_same(again.resources, call.resources));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *argv[MOST + 1];
    int argc = 0;
    for (const uint8_t *end = data + size; argc < MOST && data < end;) {
        const uint8_t *stop = memchr(data, '\n', (size_t)(end - data));
        size_t length = (size_t)((stop ? stop : end) - data);
        argv[argc++] = strndup((const char *)data, length); /* each by itself, so that a step too far is seen */
        data += length + 1;
    }
    argv[argc] = NULL;
    if (argc > 0)
        check_call(grammar_of(argv[0]), argc, argv);
    for (int i = 0; i < argc; i++)
        free(argv[i]);
    return 0;
}
