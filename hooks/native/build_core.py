"""Writes the C source of the Python module shim.hooks._core: run by meson as `build_core.py OUTPUT`."""

import sys

from cffi import FFI

DECLARATIONS = """
enum grammar { RUNC, CRUN };
struct call {
    const char *verb;
    int at;
    bool injects;
    const char *bundle, *config, *id, *root, *log, *log_format, *unknown;
    int devices, kept;
};
enum grammar grammar_of(const char *path);
void parse_call(enum grammar grammar, int argc, char *const argv[], struct call *call, char **kept, char **devices);
bool asks(const char *text, size_t size);
const char *problem(int error);
void escape(char *out, size_t room, const char *text, bool quotes);
void stamp(char *out, long now);
"""

if __name__ == "__main__":
    core = FFI()
    core.cdef(DECLARATIONS)
    core.set_source("_core", '#include "native.h"')
    core.emit_c_code(sys.argv[1])
