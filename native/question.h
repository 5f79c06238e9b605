/* question.c: the question of a create, as the launcher reads it: everything that its decision depends on. */
#pragma once

#include "call.h"
#include "jsontree.h"

/* cffi: begin */

enum { MAX_REQUESTS = 128, MAX_REQUEST = 256, MAX_QUESTION = 64 << 10 };

/* A part of a text: not ended by a NUL. */
struct span {
    const char *text;
    size_t size;
};

/* A requested device. */
struct request {
    struct span name; /* qualified, as in the annotation or on the command line */
    struct span key;  /* of the annotation that asks for it; NULL for --device */
};

struct question {
    char text[MAX_QUESTION]; /* the question; for the same text the decision is the same; ended by a NUL */
    struct request requests[MAX_REQUESTS];
    unsigned count; /* of the requests: each name once, in the order of asking */
};

/* Names of config.json that a decision depends on or changes; ended by NULL. */
extern const char *const question_members[];

/*
 * Reads the question of a create. In case of doubt it refuses: a config.json of an unusual form is left to Python.
 * tree: config.json. call, devices: the command line. name: last part of the launcher's argv[0].
 * Returns 0. -ENOTSUP: the question is not one that the launcher may answer; question: undefined then.
 */
int question_read(struct question *question, const struct json_tree *tree, const struct call *call,
                  char *const devices[], const char *name);

/* cffi: end */

/*
 * Adds to a question the programs that the answer depends on: the low-level runtime at LOW, and this build of shim,
 * whose launcher is LAUNCHER.
 * Returns 0. -ENOTSUP: a program cannot be identified.
 */
int question_add_programs(struct question *question, const char *low, const char *launcher);

/* Adds that grants are enforced, and that config.json has no devices of its own. False if it does not fit. */
bool question_add_judged(struct question *question);

/* Whether no name of a config.json differs from one that counts by the case of its letters only. */
bool question_is_spelt(const struct json_tree *tree);
