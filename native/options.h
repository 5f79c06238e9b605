/* options.c: which options the low-level runtimes have, and where. */
#pragma once

#include "call.h"

/* Where an option may stand: before the verb, or behind this verb. */
enum place { GLOBAL = 1, CREATE = 2, RUN = 4, RESTORE = 8, EXEC = 16, UPDATE = 32 };

/* What becomes of an option: its value is a text of the call, or one of these. */
#define TEXT(member) offsetof(struct call, member)
enum { OTHER = sizeof(struct call), DEVICE, HELP, VERSION };

/* Whether a value follows; one that may follow stands in the same word, or there is none. */
enum takes { NOTHING, MAYBE, VALUE };

struct option {
    const char *name;
    char letter;
    enum takes takes;
    int places[2]; /* by enum grammar */
    size_t meaning;
};

#define ALL (CREATE | RUN | RESTORE) /* what makes a container */

/* Finds an option by its letter; NULL: no option that may stand at PLACE has it. */
const struct option *option_by_letter(enum grammar grammar, int place, char letter);

/*
 * Finds an option by the name that stands in the command line, SIZE bytes; NULL: the table lacks it. crun's names may be
 * abbreviated; a name of one letter is runc's -b or --b.
 */
const struct option *option_by_name(enum grammar grammar, int place, const char *name, size_t size);
