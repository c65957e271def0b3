/* SPDX-License-Identifier: Apache-2.0 */
#include "words.h"

#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Copy one word from *text on, without its quotes, to `word`, which has room for all of the text. */
static int take_word(const char **text, char *word, struct mst_error *err)
{
    const char *p = *text;
    char quote = '\0';
    for (; *p && (quote || !is_blank(*p)); p++) {
        if (*p == '\\' && quote != '\'') {
            if (!*++p)
                return mst_error_set(err, -EINVAL, "a backslash ends the command: nothing follows it");
            *word++ = *p;
        } else if (quote ? *p == quote : *p == '\'' || *p == '"') {
            quote = quote ? '\0' : *p;
        } else {
            *word++ = *p;
        }
    }
    if (quote)
        return mst_error_set(err, -EINVAL, "the command has a %c that is not closed", quote);
    *word = '\0';
    *text = p;
    return 0;
}

int words_split(struct compose_arena *arena, const char *text, struct compose_strings *words,
                struct mst_error *err)
{
    /* All words lie in one piece, each with its NUL: a word and the blank behind it are at least as long. */
    char *word = compose_arena_alloc(arena, strlen(text) + 1);
    if (!word)
        return mst_error_set(err, -ENOMEM, "no memory for a command's words");
    for (;;) {
        while (is_blank(*text))
            text++;
        if (*text == '#') {
            text += strcspn(text, "\n");
            continue;
        }
        if (!*text)
            return 0;
        const char **items = compose_arena_grow(arena, (void *)words->items, words->count, sizeof *items);
        if (!items)
            return mst_error_set(err, -ENOMEM, "no memory for a command's words");
        int r = take_word(&text, word, err);
        if (r < 0)
            return r;
        words->items = items;
        words->items[words->count++] = word;
        word += strlen(word) + 1;
    }
}
