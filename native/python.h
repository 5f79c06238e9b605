/* python.c: the command line of Python, put together word by word, and its execution. What fails ends in give_up(). */
#pragma once

/*
 * Begins the command line: the interpreter, its options, and the program with its part.
 * launcher: path of this program, which tells where Python and the modules are.
 * part: "cli", "create", "precreate" or "netdevices"; see shim/__main__.py.
 */
void python_begin(const char *launcher, const char *part);

/* Adds a word. It must not change any more. */
void python_add(const char *word);

/* Adds the words of a list that NULL ends. */
void python_add_all(char *const words[]);

/* Adds NAME=VALUE, or nothing where the value is NULL. NAME has fewer than 31 letters. */
void python_add_value(const char *name, const char *value);

/* Executes Python with the command line, and with the environment as described in python.c. */
__attribute__((noreturn)) void python_execute(void);
