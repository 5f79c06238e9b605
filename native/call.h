/* grammar.c: the command lines of the low-level runtimes. */
#pragma once

#include "common.h"

/* cffi: begin */

enum grammar { RUNC, CRUN };

/* The parts of a command line. A pointer is NULL when it has no such text. */
struct call {
    const char *verb;
    int at;                /* index of the verb in argv, 0 without one */
    bool injects;          /* create, run or restore, and not only with --help or --version */
    const char *bundle;    /* NULL also for runc's empty --bundle, which means the working directory, too */
    const char *config;    /* a file other than the bundle's config.json, relative to the working directory */
    const char *process;   /* exec's process file, not with --help or --version */
    const char *resources; /* update's file of resources, "-" for standard input, likewise */
    const char *id;        /* the last operand; of exec the first */
    const char *root;
    const char *log; /* a file's path: never crun's journald: or syslog: */
    const char *log_format;
    const char *unknown; /* an option before the verb that leaves open which word is the verb */
    bool asks_help;      /* create or run is asked for its help alone */
    int devices;         /* entries of the devices array; they are a request where `injects` */
    int kept;            /* entries of the kept array, the closing NULL not counted */
};

/*
 * The texts of a call that Python gets: each that is not NULL as a word NAME=VALUE. A row without a name ends the
 * table. shim/create/invocation.py has the same names in TEXTS, each with the value for a missing word; a test compares
 * the two.
 */
struct call_text {
    const char *name;
    size_t member; /* offset of a const char * in struct call */
};
extern const struct call_text call_texts[];

/* The grammar that the low-level runtime at PATH follows, by the last part of the path. Without a hint: RUNC. */
enum grammar grammar_of(const char *path);

/*
 * Reads a command line.
 * argc, argv: with argv[0].
 * call: is filled; its texts point into argv. Where `unknown` is set, all words in front of the verb are kept.
 * kept: gets argv without our --device options, and a closing NULL: room for argc + 1.
 * devices: gets the values of these options, those in front of the verb first: room for argc.
 * It cannot fail: an unknown option is left to the runtime.
 */
void parse_call(enum grammar grammar, int argc, char *const argv[], struct call *call, char **kept, char **devices);

/* cffi: end */
