/*
 * The options of runc and crun.
 *
 * The table is for both, and for old and new versions. An option that only the other runtime has is read as there,
 * since further runtimes have options of both. If the real runtime stops with an error, the reading here does not
 * matter.
 */
#include "options.h"

#include <string.h>

#define EVERY (ALL | EXEC)
#define READ (EVERY | UPDATE) /* verbs whose words are read to the end */

/* Of options with the same beginning the first row is used: options of every crun come before those of newer ones. */
static const struct option options[] = {
    /* name, letter, value, verbs in {runc, crun}, meaning */
    {"debug",               0,   NOTHING, {GLOBAL, GLOBAL},                             OTHER           },
    {"log",                 0,   VALUE,   {GLOBAL, GLOBAL},                             TEXT(log)       },
    {"log-format",          0,   VALUE,   {GLOBAL, GLOBAL},                             TEXT(log_format)},
    {"log-level",           0,   VALUE,   {0, GLOBAL},                                  OTHER           },
    {"root",                0,   VALUE,   {GLOBAL, GLOBAL},                             TEXT(root)      },
    {"rootless",            0,   VALUE,   {GLOBAL, GLOBAL},                             OTHER           },
    {"criu",                0,   VALUE,   {GLOBAL, 0},                                  OTHER           },
    {"systemd-cgroup",      0,   NOTHING, {GLOBAL, GLOBAL},                             OTHER           },
    {"cgroup-manager",      0,   VALUE,   {0, GLOBAL},                                  OTHER           },
    {"version",             'v', NOTHING, {GLOBAL, GLOBAL},                             VERSION         },
    {"version",             'V', NOTHING, {0, GLOBAL},                                  VERSION         },
    {"help",                'h', NOTHING, {GLOBAL | READ, 0},                           HELP            },
    {"help",                '?', NOTHING, {0, GLOBAL | READ},                           HELP            },
    {"usage",               0,   NOTHING, {0, GLOBAL | READ},                           HELP            },
    {"bundle",              'b', VALUE,   {ALL, ALL},                                   TEXT(bundle)    },
    {"config",              0,   VALUE,   {CREATE | RUN, 0},                            TEXT(config)    },
    {"config",              'f', VALUE,   {0, CREATE | RUN},                            TEXT(config)    },
    {"detach",              'd', NOTHING, {RUN | RESTORE | EXEC, RUN | RESTORE | EXEC}, OTHER           },
    {"console-socket",      0,   VALUE,   {EVERY, EVERY},                               OTHER           },
    {"pidfd-socket",        0,   VALUE,   {CREATE | RUN | EXEC, 0},                     OTHER           },
    {"pid-file",            0,   VALUE,   {EVERY, EVERY},                               OTHER           },
    {"preserve-fds",        0,   VALUE,   {CREATE | RUN | EXEC, CREATE | RUN | EXEC},   OTHER           },
    {"program-name",        0,   VALUE,   {0, GLOBAL | READ},                           OTHER           }, /* argp's own */
    {"keep",                0,   NOTHING, {RUN, RUN},                                   OTHER           },
    {"no-pivot",            0,   NOTHING, {ALL, CREATE | RUN},                          OTHER           },
    {"no-subreaper",        0,   NOTHING, {RUN | RESTORE | EXEC, CREATE | RUN},         OTHER           },
    {"no-new-keyring",      0,   NOTHING, {CREATE | RUN, CREATE | RUN},                 OTHER           },
    {"no-mount-fallback",   0,   NOTHING, {ALL, 0},                                     OTHER           },
    {"image-path",          0,   VALUE,   {RESTORE, RESTORE},                           OTHER           },
    {"work-path",           0,   VALUE,   {RESTORE, RESTORE},                           OTHER           },
    {"tcp-established",     0,   NOTHING, {RESTORE, RESTORE},                           OTHER           },
    {"ext-unix-sk",         0,   NOTHING, {RESTORE, RESTORE},                           OTHER           },
    {"shell-job",           0,   NOTHING, {RESTORE, RESTORE},                           OTHER           },
    {"file-locks",          0,   NOTHING, {RESTORE, RESTORE},                           OTHER           },
    {"manage-cgroups-mode", 0,   VALUE,   {RESTORE, RESTORE},                           OTHER           },
    {"empty-ns",            0,   VALUE,   {RESTORE, 0},                                 OTHER           },
    {"auto-dedup",          0,   NOTHING, {RESTORE, 0},                                 OTHER           },
    {"lazy-pages",          0,   NOTHING, {RESTORE, 0},                                 OTHER           },
    {"lsm-profile",         0,   VALUE,   {RESTORE, RESTORE},                           OTHER           },
    {"lsm-mount-context",   0,   VALUE,   {RESTORE, RESTORE},                           OTHER           },
    {"process",             'p', VALUE,   {EXEC, EXEC},                                 TEXT(process)   },
    {"tty",                 't', MAYBE,   {EXEC, EXEC},                                 OTHER           },
    {"env",                 'e', VALUE,   {EXEC, EXEC},                                 OTHER           },
    {"user",                'u', VALUE,   {EXEC, EXEC},                                 OTHER           },
    {"cap",                 'c', VALUE,   {EXEC, EXEC},                                 OTHER           },
    {"cwd",                 0,   VALUE,   {EXEC, EXEC},                                 OTHER           },
    {"additional-gids",     'g', VALUE,   {EXEC, 0},                                    OTHER           },
    {"process-label",       0,   VALUE,   {EXEC, EXEC},                                 OTHER           },
    {"apparmor",            0,   VALUE,   {EXEC, EXEC},                                 OTHER           },
    {"no-new-privs",        0,   NOTHING, {EXEC, EXEC},                                 OTHER           },
    {"cgroup",              0,   VALUE,   {EXEC, EXEC},                                 OTHER           },
    {"ignore-paused",       0,   NOTHING, {EXEC, 0},                                    OTHER           },
    {"resources",           'r', VALUE,   {UPDATE, UPDATE},                             TEXT(resources) },
    {"blkio-weight",        0,   VALUE,   {UPDATE, UPDATE},                             OTHER           },
    {"cpu-period",          0,   VALUE,   {UPDATE, UPDATE},                             OTHER           },
    {"cpu-quota",           0,   VALUE,   {UPDATE, UPDATE},                             OTHER           },
    {"cpu-burst",           0,   VALUE,   {UPDATE, UPDATE},                             OTHER           },
    {"cpu-share",           0,   VALUE,   {UPDATE, UPDATE},                             OTHER           },
    {"cpu-rt-period",       0,   VALUE,   {UPDATE, UPDATE},                             OTHER           },
    {"cpu-rt-runtime",      0,   VALUE,   {UPDATE, UPDATE},                             OTHER           },
    {"cpu-idle",            0,   VALUE,   {UPDATE, UPDATE},                             OTHER           },
    {"cpuset-cpus",         0,   VALUE,   {UPDATE, UPDATE},                             OTHER           },
    {"cpuset-mems",         0,   VALUE,   {UPDATE, UPDATE},                             OTHER           },
    {"kernel-memory",       0,   VALUE,   {UPDATE, UPDATE},                             OTHER           },
    {"kernel-memory-tcp",   0,   VALUE,   {UPDATE, UPDATE},                             OTHER           },
    {"memory",              0,   VALUE,   {UPDATE, UPDATE},                             OTHER           },
    {"memory-reservation",  0,   VALUE,   {UPDATE, UPDATE},                             OTHER           },
    {"memory-swap",         0,   VALUE,   {UPDATE, UPDATE},                             OTHER           },
    {"pids-limit",          0,   VALUE,   {UPDATE, UPDATE},                             OTHER           },
    {"l3-cache-schema",     0,   VALUE,   {UPDATE, UPDATE},                             OTHER           },
    {"mem-bw-schema",       0,   VALUE,   {UPDATE, UPDATE},                             OTHER           },
};

/*
 * Our option: after create and run, and before every verb, since engines that put an option before the verb do so for
 * all verbs. It is not in the table, so that it does not change the meaning of crun's abbreviations.
 */
#define OURS (GLOBAL | CREATE | RUN)
static const struct option device_option = {
    "device", 0, VALUE, {OURS, OURS},
       DEVICE
};

#define COUNT (sizeof options / sizeof options[0])

static bool is_named(const struct option *option, const char *name, size_t size)
{
    return strlen(option->name) == size && memcmp(option->name, name, size) == 0;
}

const struct option *option_by_letter(enum grammar grammar, int scope, char letter)
{
    for (size_t i = 0; i < COUNT; i++)
        if (options[i].letter == letter && options[i].scopes[grammar] & scope)
            return &options[i];
    return NULL;
}

static const struct option *by_full_name(enum grammar grammar, int scope, const char *name, size_t size)
{
    for (size_t i = 0; i < COUNT; i++)
        if (options[i].scopes[grammar] & scope && is_named(&options[i], name, size))
            return &options[i];
    return NULL;
}

/*
 * crun's abbreviations. Options with the same beginning agree on whether a value follows, so any of them can be used
 * to continue.
 */
static const struct option *by_beginning(int scope, const char *name, size_t size)
{
    for (size_t i = 0; i < COUNT; i++)
        if (options[i].scopes[CRUN] & scope && strncmp(options[i].name, name, size) == 0)
            return &options[i];
    return NULL;
}

const struct option *option_by_name(enum grammar grammar, int scope, const char *name, size_t size)
{
    const struct option *option = by_full_name(grammar, scope, name, size);
    if (!option && scope & device_option.scopes[grammar] && is_named(&device_option, name, size))
        option = &device_option;
    if (!option && grammar == RUNC && size == 1)
        option = option_by_letter(RUNC, scope, *name);
    if (!option && grammar == RUNC)
        option = by_full_name(RUNC, GLOBAL, name, size);
    if (!option)
        option = by_full_name(grammar == RUNC ? CRUN : RUNC, scope, name, size);
    if (!option && grammar == CRUN && size > 0)
        option = by_beginning(scope, name, size);
    return option;
}
