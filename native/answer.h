/* answer.c: reads Python's stored decision for a question, and checks whether the host is unchanged. */
#pragma once

#include "question.h"

/* cffi: begin */

enum { MAX_ANSWER = 1 << 20 };

/* The fields of an answer, or the rest of them: each is its size in decimal, a colon, and that many bytes. */
struct fields {
    const char *at, *end;
    bool failed; /* a field was malformed; every further field is empty then */
};

/* An answer: where in its bytes each part begins. The parts are described in shim/create/answers.py, which writes them. */
struct answer {
    struct span question, log;
    struct fields probes, edits, record, line;
};

/*
 * Reads an answer from SIZE bytes, which must live as long as it.
 * Returns 0. -EINVAL: the bytes are damaged, or from another version.
 */
int answer_read(struct answer *answer, const char *bytes, size_t size);

/* Whether all facts of the host that the decision depends on are unchanged, in this process's mount namespace. */
bool answer_is_current(const struct answer *answer);

/* cffi: end */

/* Takes the next field; an empty one when there is none. */
struct span field(struct fields *fields);

/* Takes the next field as a number of fields or groups that follow, 0 when it is none. */
unsigned field_count(struct fields *fields);

/* Whether all fields were read, and no more than there are. */
bool fields_done(const struct fields *fields);
