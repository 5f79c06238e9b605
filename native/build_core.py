"""Writes the C source of the Python module shim.hooks._core: run by meson as `build_core.py OUTPUT`."""

import sys

from cffi import FFI

DECLARATIONS = """
enum grammar { RUNC, CRUN };
struct call {
    const char *verb;
    int at;
    bool injects;
    const char *bundle, *config, *process, *resources, *id, *root, *log, *log_format, *unknown;
    int devices, kept;
};
enum grammar grammar_of(const char *path);
void parse_call(enum grammar grammar, int argc, char *const argv[], struct call *call, char **kept, char **devices);
bool is_rootful(void);
int run_directory(char *out, size_t room);
bool is_ours(int fd, unsigned kind);
void record_key(char *out, const char *name, const char *root, const char *id);
struct needle {
    const char *text;
    size_t size;
};
extern const struct needle built_in_needles[4];
bool asks(const char *text, size_t size, const struct needle *needles, size_t count);
struct needle_file {
    struct needle needles[260];
    size_t count;
    bool is_current;
    ...;
};
void find_needles(struct needle_file *file);
int read_needles(const char *directory, const char *name, struct needle_file *file);
extern const char *const low_level_links;
extern const char *const program_directories[6];
enum low_level_answer { LOW_LEVEL_FOUND, LOW_LEVEL_MISSING, LOW_LEVEL_NO_LINK, LOW_LEVEL_RELATIVE, LOW_LEVEL_SELF };
struct low_level {
    char path[...], link[...], own[...], wanted[...];
};
enum low_level_answer low_level_by_link(const char *root, const char *name, const char *launcher,
                                        struct low_level *out);
enum low_level_answer low_level_by_search(const char *root, const char *name, const char *launcher, const char *path,
                                          struct low_level *out);
const char *problem(int error);
void escape(char *out, size_t room, const char *text, bool quotes);
void stamp(char *out, long now);

typedef int... uid_t;
typedef int... gid_t;
struct fault {
    int code;
    char text[300];
};
struct root {
    int fd;
    bool one_mount, sync;
    uid_t uid;
    gid_t gid;
    ...;
};
int root_open(struct root *root, const char *path, struct fault *fault);
void root_close(struct root *root);
bool root_empty(const struct root *root);
struct cover {
    const char *path, *source;
    bool lent;
    ...;
};
struct covers {
    struct cover *items;
    size_t count;
    ...;
};
int root_cover(struct root *root, struct covers *covers, struct fault *fault);
void root_limit(struct root *root, unsigned milliseconds);
struct ld_source {
    const char *path, *source;
    ...;
};
struct ld_options {
    const char *const *folders;
    size_t folder_count;
    struct ld_source *sources;
    size_t source_count;
    const char *generator;
    bool keep_links, settle, replace_empty, links_only;
    int elsewhere;
    unsigned threads;
};
struct ld_report {
    unsigned entries, links_made, links_removed, links_refused;
    bool written;
    char generator[160];
    struct fault remark;
};
int ld_update(const struct root *root, const struct ld_options *options, struct ld_report *report, struct fault *fault);
struct hook_call {
    const char *names[16];
    size_t name_count;
    const char *folders[512];
    const char *links[512];
    size_t folder_count, link_count;
    struct ld_source *sources;
    size_t source_count;
    const char *root, *state, *compat, *driver, *cuda, *generator;
    int elsewhere;
    bool settle, keep_links, vendor, passed_over;
    ...;
};
bool is_hook_call(int argc, char *const argv[], int *first, bool *vendor);
int hook_parse(int argc, char *const argv[], int first, struct hook_call *call, struct fault *fault);
int run_hook(const char *name, const struct root *root, const struct hook_call *call, struct fault *fault);
bool ld_glob(const char *pattern, const char *name);
"""

if __name__ == "__main__":
    core = FFI()
    core.cdef(DECLARATIONS)
    core.set_source("_core", '#include "native.h"')
    core.emit_c_code(sys.argv[1])
