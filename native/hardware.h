/* hardware.c: may a config.json hold devices that create has not put there? */
#pragma once

#include "call.h"

/* cffi: begin */

/*
 * Whether a config.json of SIZE bytes, with a NUL behind them, may give its container a device of the host apart from what
 * is asked for by name: then Python judges it (shim/create/grants_rule.py). Errs only towards true.
 */
bool may_have_hardware(const struct call *call, const char *text, size_t size);

/* cffi: end */
