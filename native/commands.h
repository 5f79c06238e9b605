/* commands.c: which command lines are for shim itself. */
#pragma once

#include "common.h"

/*
 * Whether a command line is for shim and not for the low-level runtime. A misspelt command of shim is for shim, too,
 * since the runtime's error would not name its commands. Links named shim-X have only the hooks.
 * name: last part of argv[0].
 */
bool is_our_command(const char *name, int argc, char *const argv[]);

/* Whether a command line of ours is a call of this hook, which is in Python, without --help. */
bool is_python_hook(int argc, char *const argv[], const char *hook);
