/*
 * Which command lines are for shim itself: those that begin with a noun of its command line, or with a misspelt noun.
 * No verb of runc, crun, youki or runsc is so near to a noun; a test compares them. (youki and runsc have a
 * `completion` of their own, which no engine calls.)
 */
#define _GNU_SOURCE
#include "commands.h"

#include <string.h>

static int least(int first, int second)
{
    return first < second ? first : second;
}

/*
 * Whether a word is probably a misspelling of a noun: if they differ in one letter, or in two of a longer noun; two
 * exchanged letters count once. The distance is that of optimal string alignment.
 */
static bool is_misspelt(const char *word, const char *noun)
{
    enum { LONGEST = 16 };
    int length = (int)strlen(noun), allowed = length < 5 ? 1 : 2, size = (int)strnlen(word, LONGEST);
    if (size == LONGEST || length >= LONGEST || size > length + allowed || size + allowed < length)
        return false;
    int apart[LONGEST][LONGEST]; /* apart[i][j]: distance of the first i letters from the first j */
    for (int i = 0; i <= size; i++)
        for (int j = 0; j <= length; j++) {
            if (i == 0 || j == 0) {
                apart[i][j] = i + j;
                continue;
            }
            int one_more = 1 + least(apart[i - 1][j], apart[i][j - 1]);
            apart[i][j] = least(one_more, apart[i - 1][j - 1] + (word[i - 1] != noun[j - 1]));
            if (i > 1 && j > 1 && word[i - 1] == noun[j - 2] && word[i - 2] == noun[j - 1])
                apart[i][j] = least(apart[i][j], 1 + apart[i - 2][j - 2]);
        }
    return apart[size][length] <= allowed;
}

bool is_our_command(const char *name, int argc, char *const argv[])
{
    static const char *const nouns[] = {
        "cdi",  "explain", "hook",   "runtime", "device", "grant",  "gate", "doctor",
        "node", "system",  "config", "version", "help",   "--help", "-h",   "completion",
    };
    if (strcmp(name, "shim") != 0)
        return strncmp(name, "shim-", 5) == 0 && argc > 1 && strcmp(argv[1], "hook") == 0;
    if (argc < 2)
        return true;
    for (size_t i = 0; i < sizeof nouns / sizeof nouns[0]; i++)
        if (strcmp(argv[1], nouns[i]) == 0 || (*argv[1] != '-' && is_misspelt(argv[1], nouns[i])))
            return true;
    return false;
}

bool is_python_hook(int argc, char *const argv[], const char *hook)
{
    if (argc < 3 || strcmp(argv[1], "hook") != 0 || strcmp(argv[2], hook) != 0)
        return false;
    return argc < 4 || (strcmp(argv[3], "--help") != 0 && strcmp(argv[3], "-h") != 0);
}
