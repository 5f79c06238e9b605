/* hardware.c: may a config.json hold devices that create has not put there? */
#pragma once

#include "call.h"
#include "jsontree.h"

/* cffi: begin */

/*
 * Whether a config.json of SIZE bytes, with a NUL behind them, may give its container a device of the host apart from what
 * is asked for by name: then Python judges it (shim/create/grants_hardware.py). Errs only towards true.
 */
bool may_have_hardware(const struct call *call, const char *text, size_t size);

/*
 * The same for the resources of an update, which give what their device rules allow; without any rule nothing. The tree
 * is theirs. Errs only towards true.
 */
bool resources_may_open(const struct json_tree *tree);

/* cffi: end */
