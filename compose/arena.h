/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a project: everything is allocated from here and let go at once, because a project is built
 * once, read by many and dropped whole. Each piece is its own malloc(), so that the sanitizers see its ends.
 */
#ifndef COMPOSE_ARENA_H
#define COMPOSE_ARENA_H

#include <stddef.h>

struct compose_arena;

struct compose_arena *compose_arena_new(void);        /* NULL without memory */
void compose_arena_free(struct compose_arena *arena); /* overwrites: secrets lie here too; NULL is fine */

size_t
compose_arena_bytes(const struct compose_arena *arena); /* given out so far: how much work a file made */

/* All return NULL without memory, or past the arena's limit; memory is zeroed. */
void *compose_arena_alloc(struct compose_arena *arena, size_t bytes);
char *compose_arena_text(struct compose_arena *arena, const char *text);
char *compose_arena_text_n(struct compose_arena *arena, const char *text, size_t bytes);
char *compose_arena_printf(struct compose_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Room for one more in a list of `count` items: the list, moved when `count` is 0 or a power of two. */
void *compose_arena_grow(struct compose_arena *arena, void *items, size_t count, size_t item_bytes);

#endif
