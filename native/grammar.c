/*
 * The command lines of runc and crun.
 *
 * runc reads its options by Go's flag package: one dash or two, a value behind "=" or in the next word, booleans
 * that take "=false", options behind the container's id as well; from version 1.5 on the global ones also behind
 * the verb. crun reads them by argp: long options by any unambiguous beginning, letters in clusters with the value
 * at their end (-dbDIR). In both the last of equal options counts, "--" ends the options, and a value is the next word
 * whatever it looks like. Behind exec the options end at the container's id: the rest is the command.
 *
 * options.c has the table of the options.
 */
#include "options.h"

#include <string.h>

/* A word of the command line, classified. */
struct word {
    enum { OPERAND, END, KNOWN, UNKNOWN } kind;
    size_t meaning;
    const char *value; /* the text behind "=" or behind the letter, else NULL */
    bool takes_next;   /* the value is the next word */
};

enum grammar grammar_of(const char *path)
{
    return strstr(last_part(path), "crun") ? CRUN : RUNC;
}

/* A word with an option (NULL: not in the table), and the value in the same word. */
static struct word as_option(const struct option *option, const char *value)
{
    if (!option)
        return (struct word){.kind = UNKNOWN, .value = value};
    return (struct word){KNOWN, option->meaning, value, option->takes == VALUE && !value};
}

/* -dbDIR: letters without value, then at most one with a value: the rest of the word, or else the next word. */
static struct word read_cluster(int scope, const char *letters)
{
    for (; *letters; letters++) {
        const struct option *option = option_by_letter(CRUN, scope, *letters);
        bool last = letters[1] == '\0';
        bool takes = option && option->takes != NOTHING;
        if (!option || takes || option->meaning != OTHER || last)
            return as_option(option, takes && !last ? letters + 1 : NULL);
    }
    return as_option(NULL, NULL);
}

static struct word read_word(enum grammar grammar, int scope, const char *text)
{
    if (text[0] != '-' || text[1] == '\0')
        return (struct word){.kind = OPERAND};
    if (strcmp(text, "--") == 0)
        return (struct word){.kind = END};
    if (grammar == CRUN && text[1] != '-')
        return read_cluster(scope, text + 1);

    const char *name = text + (text[1] == '-' ? 2 : 1);
    size_t size = strcspn(name, "=");
    return as_option(option_by_name(grammar, scope, name, size), name[size] ? name + size + 1 : NULL);
}

/* A boolean of Go's flag package; any other text is false or an error there. */
static bool is_true(const char *value)
{
    static const char *const words[] = {"1", "t", "T", "true", "TRUE", "True"};
    if (!value || !*value)
        return true;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(value, words[i]) == 0)
            return true;
    return false;
}

/* crun's log may be "file:PATH", or "journald:ID" and "syslog:ID", which are not files. */
static const char *log_path(enum grammar grammar, const char *log)
{
    if (grammar == CRUN && strncmp(log, "file:", 5) == 0)
        log += 5;
    else if (grammar == CRUN && (strncmp(log, "journald:", 9) == 0 || strncmp(log, "syslog:", 7) == 0))
        return NULL;
    return *log ? log : NULL;
}

/* The plain name is relative to the bundle in crun, and to the working directory in runc. */
static const char *config_path(enum grammar grammar, const char *config)
{
    if (*config == '\0' || (grammar == CRUN && strcmp(config, "config.json") == 0))
        return NULL;
    return config;
}

const struct call_text call_texts[] = {
    {"verb",       TEXT(verb)      },
    {"bundle",     TEXT(bundle)    },
    {"config",     TEXT(config)    },
    {"process",    TEXT(process)   },
    {"resources",  TEXT(resources) },
    {"id",         TEXT(id)        },
    {"root",       TEXT(root)      },
    {"log",        TEXT(log)       },
    {"log-format", TEXT(log_format)},
    {"unknown",    TEXT(unknown)   },
    {NULL,         0               },
};

/* The value of an option as a text of the call, NULL if the runtime treats it as missing. */
static const char *text_of(enum grammar grammar, size_t member, const char *value)
{
    switch (member) {
    case TEXT(bundle):
        return grammar == RUNC && !*value ? NULL : value;
    case TEXT(config):
        return config_path(grammar, value);
    case TEXT(process):
    case TEXT(resources):
        return *value ? value : NULL;
    case TEXT(log):
        return log_path(grammar, value);
    default:
        return value;
    }
}

/* Notes a known option. questions: whether help, or the version, is requested instead of an action. */
static void note(enum grammar grammar, const struct word *word, const char *value, struct call *call, bool *questions)
{
    if (word->meaning == HELP || word->meaning == VERSION)
        questions[word->meaning == VERSION] = grammar == CRUN || is_true(value);
    if (value && word->meaning < OTHER)
        *(const char **)(void *)((char *)call + word->meaning) = text_of(grammar, word->meaning, value);
}

static int scope_of(const char *verb)
{
    static const struct {
        const char *name;
        int scope;
    } verbs[] = {
        {"create",  CREATE },
        {"run",     RUN    },
        {"restore", RESTORE},
        {"exec",    EXEC   },
        {"update",  UPDATE },
    };
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (strcmp(verb, verbs[i].name) == 0)
            return verbs[i].scope;
    return 0;
}

/* The kind of a verb: not relevant here, for an existing container, or for a new container. */
static enum { NO_MATTER, GOES_ON, MAKES } weight(const char *verb)
{
    int scope = scope_of(verb);
    return scope & ALL ? MAKES : scope ? GOES_ON : NO_MATTER;
}

/*
 * Of several readings the first that makes a container counts, then the first with an existing container (exec and
 * update), else the first.
 */
static void take_verb(int at, char *const argv[], struct call *call)
{
    if (call->verb && weight(call->verb) >= weight(argv[at]))
        return;
    call->verb = argv[at];
    call->at = at;
}

/* crun prints its help or version as soon as it reads the option, and ignores the rest. */
static bool is_answered_at_once(enum grammar grammar, const struct word *word)
{
    return grammar == CRUN && (word->meaning == HELP || word->meaning == VERSION);
}

/*
 * Reads up to the verb. An option that is not in the table may be a single word or take the next word: both readings
 * are followed. An option is one word or two, so it is sufficient to know whether a reading begins at this word and at
 * the next. After a verb that makes a container the other readings do not matter.
 */
static void read_globals(enum grammar grammar, int argc, char *const argv[], struct call *call, bool *questions,
                         char **devices)
{
    bool here = true, next = false;
    for (int i = 1; i < argc && (here || next) && !(call->verb && weight(call->verb) == MAKES); i++) {
        bool after = false;
        if (here) {
            struct word word = read_word(grammar, GLOBAL, argv[i]);
            const char *value = word.takes_next ? argv[i + 1] : word.value;
            switch (word.kind) {
            case OPERAND:
                take_verb(i, argv, call);
                break;
            case END:
                if (i + 1 < argc)
                    take_verb(i + 1, argv, call);
                break;
            case KNOWN:
                note(grammar, &word, value, call, questions);
                if (word.meaning == DEVICE && value)
                    devices[call->devices++] = (char *)value;
                next |= !word.takes_next && !is_answered_at_once(grammar, &word);
                after |= word.takes_next;
                break;
            case UNKNOWN:
                next = true;
                after |= !word.value;
                if (!call->unknown && !word.value)
                    call->unknown = argv[i];
                break;
            }
        }
        here = next;
        next = after;
    }
}

/*
 * Keeps the words up to the verb, without our --device. After an unknown option it is not certain that a word is an
 * option of ours: then all are kept.
 */
static void keep_globals(enum grammar grammar, int argc, char *const argv[], struct call *call, char **kept)
{
    int end = call->verb ? call->at + 1 : argc;
    bool ended = call->unknown;
    kept[call->kept++] = argv[0];
    for (int i = 1; i < end; i++) {
        struct word word = {.kind = OPERAND};
        if (!ended)
            word = read_word(grammar, GLOBAL, argv[i]);
        ended |= word.kind == OPERAND || word.kind == END || is_answered_at_once(grammar, &word);
        bool is_pair = word.takes_next && i + 1 < end;
        if (word.meaning == DEVICE && (is_pair || word.value)) {
            i += is_pair;
            continue;
        }
        kept[call->kept++] = argv[i];
        if (is_pair)
            kept[call->kept++] = argv[++i];
    }
}

/* Reads behind the verb, and removes our --device; kept without a value, so that the runtime reports the error. */
static void read_verb(enum grammar grammar, int argc, char *const argv[], struct call *call, bool *questions,
                      char **kept, char **devices)
{
    int scope = scope_of(call->verb);
    bool ended = false;
    for (int i = call->at + 1; i < argc; i++) {
        struct word word = {.kind = OPERAND};
        if (!ended)
            word = read_word(grammar, scope, argv[i]);
        bool is_pair = word.takes_next && i + 1 < argc;
        const char *value = is_pair ? argv[i + 1] : word.value;

        if (word.meaning == DEVICE && value) {
            devices[call->devices++] = (char *)value;
            i += is_pair;
            continue;
        }
        if (word.kind == OPERAND && (scope != EXEC || !call->id))
            call->id = argv[i];
        if (word.kind == END || (word.kind == OPERAND && scope == EXEC))
            ended = true;
        if (word.kind == KNOWN)
            note(grammar, &word, value, call, questions);
        kept[call->kept++] = argv[i];
        if (is_pair)
            kept[call->kept++] = argv[++i];
    }
}

void parse_call(enum grammar grammar, int argc, char *const argv[], struct call *call, char **kept, char **devices)
{
    bool questions[2] = {false, false};
    *call = (struct call){0};
    read_globals(grammar, argc, argv, call, questions, devices);
    if (call->unknown)
        questions[0] = questions[1] = false; /* the word --help may be the unknown option's value */

    bool is_known_verb = call->verb && scope_of(call->verb);
    keep_globals(grammar, argc, argv, call, kept);
    if (is_known_verb)
        read_verb(grammar, argc, argv, call, questions, kept, devices);
    else
        for (int i = call->verb ? call->at + 1 : argc; i < argc; i++)
            kept[call->kept++] = argv[i];
    kept[call->kept] = NULL;

    bool acts = is_known_verb && !questions[0] && !questions[1];
    call->injects = acts && scope_of(call->verb) & ALL;
    call->asks_help = is_known_verb && questions[0] && scope_of(call->verb) & (CREATE | RUN);
    if (!call->injects)
        call->unknown = NULL;
    if (!acts)
        call->process = call->resources = NULL;
}
