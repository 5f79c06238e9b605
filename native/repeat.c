/*
 * Repeats a create without Python, if it asks for the same as an earlier create and the host is unchanged:
 *
 *     the question         question.c    the requested names, the caller, the kind of container
 *     the answer to it     answer.c      a file in answers/, named after the question, written by Python
 *     is it current?       answer.c      the probes are repeated
 *     the edits            insert.c      put into the text of config.json
 *     config.json, record, log           here, in this order, as Python does (shim/create/bundle.py, record.py, log.py)
 *
 * In any unusual case it stops before anything has changed. config.json is replaced under the same lock as in Python,
 * and only if it is the file that was read. Record and line of the log are templates, which Python has stored in the
 * answer.
 */
#define _GNU_SOURCE
#include "repeat.h"
#include "answer.h"
#include "insert.h"
#include "ownfiles.h"
#include "places.h"
#include "template.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>

/*
 * The memory that only a repeated create needs. It is mapped, not static: the kernel executes no program whose static
 * memory exceeds the limit of a process, and the launcher's memory for other calls is near such limits already.
 */
struct memory {
    struct json_tree tree;
    struct question question;
    struct answer answer;
    struct inserts inserts;
    struct line line;
    char bytes[MAX_ANSWER + 1]; /* of the answer */
};
static struct memory *memory;

/* --- the answer --------------------------------------------------------------------------------------------------- */

/* Finds the answer to the question in a file of this name. False if there is no valid answer. */
static bool find_answer(const char *name)
{
    char *bytes = memory->bytes;
    cleanup_fd int directory = open_ours("answers");
    if (directory < 0)
        return false;
    ssize_t size = read_ours(directory, name, bytes, sizeof memory->bytes);
    return size >= 0 && (size_t)size <= MAX_ANSWER && answer_read(&memory->answer, bytes, (size_t)size) == 0 &&
           memory->answer.question.size == strlen(memory->question.text) &&
           memcmp(memory->answer.question.text, memory->question.text, memory->answer.question.size) == 0 &&
           answer_is_current(&memory->answer);
}

/* --- record and log ----------------------------------------------------------------------------------------------- */

static void write_record(int directory, const char *name, const struct line *line)
{
    char beside[KEY_SIZE + 16];
    snprintf(beside, sizeof beside, "%s.%d", name, (int)getpid());
    int fd = openat(directory, beside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    bool is_written = fchmod(fd, 0600) == 0 && write_all(fd, line->text, line->used);
    close(fd);
    if (!is_written || renameat(directory, beside, directory, name) != 0)
        unlinkat(directory, beside, 0);
}

static void append_log(struct span path, const struct line *line)
{
    char file[PATH_MAX];
    if (!path.size || path.size >= sizeof file)
        return;
    memcpy(file, path.text, path.size);
    file[path.size] = '\0';
    cleanup_fd int fd =
        open(file, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0640);
    if (fd >= 0 && write(fd, line->text, line->used) < 0)
        return; /* a log that cannot be written changes nothing */
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

/* Writes a path as Python would name it, and its absolute path. False if they do not fit, or are not plain. */
static bool find_paths(const struct call *call, char config[PATH_MAX], char whole_config[2 * PATH_MAX],
                       char whole_bundle[2 * PATH_MAX])
{
    char directory[PATH_MAX];
    const char *bundle = call->bundle ? call->bundle : ".";
    int size = call->config ? snprintf(config, PATH_MAX, "%s%s", strchr(call->config, '/') ? "" : "./", call->config)
                            : snprintf(config, PATH_MAX, "%s/config.json", bundle);
    if (size >= PATH_MAX || !getcwd(directory, sizeof directory) || !is_plain(directory, strlen(directory)))
        return false;
    snprintf(whole_config, 2 * PATH_MAX, "%s%s%s", *config == '/' ? "" : directory, *config == '/' ? "" : "/", config);
    size = snprintf(whole_bundle, 2 * PATH_MAX, "%s%s%s", *bundle == '/' ? "" : directory, *bundle == '/' ? "" : "/",
                    bundle);
    return size < 2 * PATH_MAX;
}

/* A variable that existed before may be ours, from an earlier create: Python reads the record. */
static bool are_variables_certain(const char *record)
{
    bool is_any = false;
    for (unsigned i = 0; i < memory->inserts.variable_count; i++) {
        struct span before = memory->inserts.variables[i].before;
        for (size_t at = 0; at < before.size; at++)
            if ((unsigned char)before.text[at] >= 0x80)
                return false; /* the record is ASCII */
        is_any = is_any || before.text;
    }
    return !is_any || !has_record(record);
}

static bool repeat(const struct create *create)
{
    struct line *line = &memory->line;
    char config[PATH_MAX], whole_config[2 * PATH_MAX], whole_bundle[2 * PATH_MAX];
    int changes = insert_edits(&memory->inserts, &memory->tree, &memory->answer);
    cleanup_fd int records = open_ours("c");
    if (changes < 0 || records < 0 || !find_paths(create->call, config, whole_config, whole_bundle) ||
        !are_variables_certain(create->record))
        return false;
    struct values values = {create->call, &memory->question, &memory->inserts,
                            whole_bundle, whole_config,      create->status};
    /* before anything changes: check that both texts can be written */
    if (!template_write(line, memory->answer.line, &values) || !template_write(line, memory->answer.record, &values))
        return false;
    struct edited edited = {&memory->inserts, &memory->tree, create->size, &create->status};
    if (changes && !replace_edited(config, &edited, &values.written))
        return false;
    if (template_write(line, memory->answer.record, &values))
        write_record(records, create->record, line);
    if (changes && template_write(line, memory->answer.line, &values))
        append_log(memory->answer.log, line);
    return true;
}

bool repeat_create(const struct create *create, struct asked *asked)
{
    struct sigaction ignored = {.sa_handler = SIG_IGN}, before;
    asked->question = NULL;
    memory = mmap(NULL, sizeof *memory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    if (json_tree_read(&memory->tree, create->text, create->size) != 0 ||
        question_read(&memory->question, &memory->tree, create->call, create->devices, create->name) != 0 ||
        (create->is_judged && !question_add_judged(&memory->question)) ||
        question_add_programs(&memory->question, create->low, create->launcher) != 0)
        return false;
    const char *text = memory->question.text;
    snprintf(asked->answer, sizeof asked->answer, "%016" PRIx64, short_name(SHORT_NAME, text, strlen(text)));
    if (!find_answer(asked->answer)) {
        asked->question = text;
        return false;
    }
    /* exceeding the file size limit must be an error of write(2), not a signal */
    bool is_held = sigaction(SIGXFSZ, &ignored, &before) == 0;
    bool is_done = repeat(create);
    if (is_held)
        sigaction(SIGXFSZ, &before, NULL);
    return is_done;
}
