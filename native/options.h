/* options.c: which options the low-level runtimes have, and where. */
#pragma once

#include "call.h"

/* Where an option is allowed: before the verb, or after this verb. */
enum scope { GLOBAL = 1, CREATE = 2, RUN = 4, RESTORE = 8, EXEC = 16, UPDATE = 32 };

/* The meaning of an option: the text of the call that its value is, or one of these. */
#define TEXT(member) offsetof(struct call, member)
enum { OTHER = sizeof(struct call), DEVICE, HELP, VERSION };

/* Whether an option has a value; MAYBE: only in the same word. */
enum takes { NOTHING, MAYBE, VALUE };

struct option {
    const char *name;
    char letter;
    enum takes takes;
    int scopes[2]; /* by enum grammar */
    size_t meaning;
};

#define ALL (CREATE | RUN | RESTORE) /* verbs that make a container */

/* Finds an option by its letter; NULL: no option of this scope has it. */
const struct option *option_by_letter(enum grammar grammar, int scope, char letter);

/*
 * Finds an option by its name in the command line, SIZE bytes; NULL: the table lacks it. crun's names may be
 * abbreviated; a name of one letter is runc's -b or --b.
 */
const struct option *option_by_name(enum grammar grammar, int scope, const char *name, size_t size);
