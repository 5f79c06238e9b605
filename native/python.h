/* python.c: builds the command line of Python word by word, and executes it. Failures end in give_up(). */
#pragma once

#include <stdbool.h>

/*
 * Begins the command line: the interpreter, its options, and the program with its part.
 * launcher: path of this program, by which Python and the modules are found.
 * part: "cli", "create", "precreate" or "netdevices"; see shim/__main__.py.
 */
void python_begin(const char *launcher, const char *part);

enum { PYTHON_PATH = 4096 + 96 };

/*
 * Fills in the files by which builds of shim differ: `launch`, and that of the hot modules. Whether they exist is not
 * checked.
 * launcher: as above. Returns whether there is a `launch`: not in a virtual environment.
 */
bool python_files(const char *launcher, char launch[PYTHON_PATH], char hot[PYTHON_PATH]);

/* Adds a word, which must not change any more. */
void python_add(const char *word);

/* Adds the words of a NULL-terminated list. */
void python_add_all(char *const words[]);

/* Adds NAME=VALUE, or nothing if the value is NULL. NAME has fewer than 31 letters. */
void python_add_value(const char *name, const char *value);

/* Executes Python with the command line, and with the environment as described in python.c. */
__attribute__((noreturn)) void python_execute(void);
