/* execenv.c: the variables of a container's devices in the process file of an exec. */
#pragma once

#include "call.h"

/*
 * Sets the variables that the container's record holds in the process file of an exec, as shim/create/exec_env.py does.
 * name: last part of the launcher's argv[0]. record: name of the container's record.
 * Returns whether that is done, or nothing is to be done. If not, nothing has changed, and Python is to look.
 */
bool complete_exec(const struct call *call, const char *name, const char *record);
