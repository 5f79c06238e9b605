/* execute.c: how the launcher ends: the low-level runtime in this process, or an error. */
#pragma once

#include "call.h"

/*
 * The kernel accepts at most 6 MiB of arguments and environment, the pointers to them included. This process got no
 * more than that and can pass on no more, so these numbers cannot be reached.
 */
enum { MAX_WORDS = 3 << 18, MAX_TEXT = 8 << 20 };

/* Lets give_up() write also to the log of this call, as it is known then. */
void log_errors_of(const struct call *call);

/* Lets give_up() execute this program, with these arguments, instead of ending. */
void fall_back_to(const char *program, char *argv[]);

/* Ends with "shim: ID: text (remedy)" on stderr and in the log, and with status 1, unless fall_back_to() was called. */
__attribute__((noreturn, format(printf, 3, 4))) void give_up(const char *id, const char *remedy, const char *form, ...);

/*
 * The text for a program that could not be executed: problem() of the error of execve, which is ENOENT, too, for a
 * program whose loader or interpreter is missing.
 */
const char *start_problem(const char *program, int error);

/* Executes the low-level runtime; argv[0] becomes its path. */
__attribute__((noreturn)) void execute_low_level(const char *program, char *argv[]);
