/* idmap.c: mounts on which ids are mapped. */
#pragma once

#include "common.h"

/* cffi: begin */

/*
 * Whether ids can be mapped on a bind mount of PATH, a path of the host; tried on a copy of the mount, attached
 * nowhere. recursive: also on the mounts below it, as option ridmap does.
 * Returns 1; 0 if the kernel or a file system does not support it; other errors if it could not be tried.
 */
int can_map_ids(const char *path, bool recursive);

/* cffi: end */
