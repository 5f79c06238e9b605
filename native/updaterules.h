/* updaterules.c: the device rules of a container's devices in the resources of an update. */
#pragma once

#include "call.h"

/*
 * Adds the device rules that the container's record holds to the resources of an update, as
 * shim/create/update_rules.py does. name: last part of the launcher's argv[0]. record: name of the container's record.
 * Returns whether that is done, or nothing is to be done. If not, the resources are as they were, and Python has to
 * look; standard input, if it was read, is another file with the same bytes then.
 */
bool complete_update(const struct call *call, const char *name, const char *record);

/*
 * Whether an update may open hardware, where grants are enforced: then Python judges it (shim/create/update_grants.py).
 * Errs only towards true. Standard input, if it was read, is another file with the same bytes then.
 */
bool update_may_open(const char *resources);
