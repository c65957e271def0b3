/* SPDX-License-Identifier: Apache-2.0 */
/* What an unquoted YAML scalar means, by the rules of Go's YAML reader, which docker uses: a file must mean
 * the same to both. libyaml only gives the text. */
#ifndef COMPOSE_SCALAR_H
#define COMPOSE_SCALAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum scalar_kind { SCALAR_TEXT, SCALAR_NULL, SCALAR_BOOL, SCALAR_INT, SCALAR_FLOAT };

struct scalar {
    enum scalar_kind kind;
    bool boolean;
    bool negative;      /* of an int */
    uint64_t magnitude; /* of an int */
    double real;        /* of a float */
};

/* 010 is 8, 0o17 is 15, 1_000 is 1000, 1e3 is a float, 22:22 and yes are texts, ~ and nothing are null. Dates
 * stay texts (Go makes timestamps of them, and docker then prints those: nobody wants that). */
struct scalar scalar_resolve(const char *text);

/* An int's or float's value in the text that Go prints: 1.50 is "1.5", 1e6 is "1e+06", 0x10 is "16". */
#define SCALAR_TEXT_BYTES 40
void scalar_print(const struct scalar *scalar, char text[static SCALAR_TEXT_BYTES]);

#endif
