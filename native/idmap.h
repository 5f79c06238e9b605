/* idmap.c: mounts on which ids are mapped. */
#pragma once

#include "common.h"

/* cffi: begin */

/*
 * Whether ids can be mapped on a bind mount of PATH, a path of the host; tried on a copy of the mount that nobody sees.
 * recursive: also on the mounts below it, as option ridmap does.
 * Returns 1; 0 where the kernel or one of the file systems cannot; other errors where it could not be tried.
 */
int can_map_ids(const char *path, bool recursive);

/* cffi: end */
