/* commands.c: which command lines are for shim itself. */
#pragma once

#include "common.h"

/*
 * Whether a command line is for shim and not for the runtime in whose place it stands. A word that is nearly one of shim's
 * commands is for shim, too, since the runtime's answer would not name those. Links named shim-X have only the hooks.
 * name: last part of argv[0].
 */
bool is_our_command(const char *name, int argc, char *const argv[]);

/* Whether a command line of ours is a call of this hook, which is in Python, and not a question for its help. */
bool is_python_hook(int argc, char *const argv[], const char *hook);
