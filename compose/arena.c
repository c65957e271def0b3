/* SPDX-License-Identifier: Apache-2.0 */
#include "arena.h"

#include "muster/digest.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Far above any real stack file with its secrets, far below what would hurt the machine. */
#define ARENA_MAX_BYTES ((size_t)256 << 20)

struct arena_piece {
    struct arena_piece *next;
    size_t bytes;
    max_align_t content[];
};

struct compose_arena {
    struct arena_piece *pieces;
    size_t total_bytes;
};

struct compose_arena *compose_arena_new(void)
{
    return calloc(1, sizeof(struct compose_arena));
}

void compose_arena_free(struct compose_arena *arena)
{
    if (!arena)
        return;
    for (struct arena_piece *piece = arena->pieces, *next; piece; piece = next) {
        next = piece->next;
        mst_forget(piece->content, piece->bytes);
        free(piece);
    }
    free(arena);
}

size_t compose_arena_bytes(const struct compose_arena *arena)
{
    return arena->total_bytes;
}

void *compose_arena_alloc(struct compose_arena *arena, size_t bytes)
{
    if (bytes > ARENA_MAX_BYTES - arena->total_bytes)
        return NULL;
    struct arena_piece *piece = calloc(1, sizeof *piece + bytes);
    if (!piece)
        return NULL;
    piece->bytes = bytes;
    piece->next = arena->pieces;
    arena->pieces = piece;
    arena->total_bytes += bytes;
    return piece->content;
}

char *compose_arena_text_n(struct compose_arena *arena, const char *text, size_t bytes)
{
    char *copy = compose_arena_alloc(arena, bytes + 1);
    if (copy && bytes > 0)
        memcpy(copy, text, bytes);
    return copy;
}

char *compose_arena_text(struct compose_arena *arena, const char *text)
{
    return compose_arena_text_n(arena, text, strlen(text));
}

char *compose_arena_printf(struct compose_arena *arena, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = length < 0 ? NULL : compose_arena_alloc(arena, (size_t)length + 1);
    if (text)
        (void)vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

void *compose_arena_grow(struct compose_arena *arena, void *items, size_t count, size_t item_bytes)
{
    if (count & (count - 1))
        return items; /* between two powers of two there is room */
    size_t room = count ? 2 * count : 1;
    if (room > SIZE_MAX / 2 / item_bytes)
        return NULL;
    void *moved = compose_arena_alloc(arena, room * item_bytes);
    if (moved && count)
        memcpy(moved, items, count * item_bytes);
    return moved;
}
