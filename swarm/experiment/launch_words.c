/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's template. */
#include "experiment/launch.h"
#include "muster/cleanup.h"

#include <ctype.h>
#include <string.h>

#define WORD_MAX_BYTES ((size_t)8 << 10)
#define HOST           "{host}"
#define COMMAND        "{cmd}"

/* One word from *text on. 1: there was one; 0: the end. */
static int next_word(const char **text, char **ret_word, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf word = MST_BUF_INIT(WORD_MAX_BYTES);
    const char *at = *text;
    char quote = 0;

    while (isspace((unsigned char)*at))
        at++;
    if (*at == '\0')
        return 0;
    for (; *at != '\0' && (quote || !isspace((unsigned char)*at)); at++) {
        if (quote ? *at == quote : *at == '\'' || *at == '"')
            quote = quote ? 0 : *at;
        else if (mst_buf_append(&word, at, 1) < 0)
            return mst_error_set(err, -EINVAL, "a word of the launcher is longer than %zu bytes",
                                 WORD_MAX_BYTES);
    }
    if (quote)
        return mst_error_set(err, -EINVAL, "'%s': a %c without its end", *text, quote);
    *text = at;
    *ret_word = strdup(mst_buf_text(&word));
    return *ret_word ? 1 : mst_error_set(err, -ENOMEM, "launcher: no memory");
}

int launcher_parse(const char *text, struct launcher *ret_launcher, struct mst_error *err)
{
    mst_cleanup(launcher_release) struct launcher launcher = {0};
    const char *at = strcmp(text, "local") == 0 ? COMMAND : text;
    bool has_command = false;

    for (;;) {
        char *word;
        const int r = next_word(&at, &word, err);
        if (r < 0)
            return r;
        if (r == 0)
            break;
        if (launcher.count == LAUNCH_WORDS_MAX) {
            free(word);
            return mst_error_set(err, -EINVAL, "more than %d words", LAUNCH_WORDS_MAX);
        }
        launcher.words[launcher.count++] = word;
        has_command |= strstr(word, COMMAND) != NULL;
    }
    if (!has_command)
        return mst_error_set(err, -EINVAL,
                             "'%s': expected a command with {cmd} in it, such as 'ssh {host} {cmd}'", text);
    *ret_launcher = launcher;
    launcher = (struct launcher){0};
    return 0;
}

void launcher_release(struct launcher *launcher)
{
    for (size_t i = 0; i < launcher->count; i++)
        free(launcher->words[i]);
    *launcher = (struct launcher){0};
}

bool launcher_is_local(const struct launcher *launcher)
{
    for (size_t i = 0; i < launcher->count; i++) {
        if (strstr(launcher->words[i], HOST))
            return false;
    }
    return true;
}

/* No shell reads anything but itself into it, and none begins as an option. */
static int check_word(const char *what, const char *word, bool may_be_option, struct mst_error *err)
{
    const size_t harmless =
        strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=@%+,-");

    if (word[0] == '\0' || word[harmless] != '\0' || (!may_be_option && word[0] == '-'))
        return mst_error_set(err, -EINVAL,
                             "%s '%s': only letters, digits and _./:=@%%+,- can go through a launcher", what,
                             word);
    return 0;
}

static int append_replaced(struct mst_buf *out, const char *word, const char *host, const char *command)
{
    int r = 0;

    while (*word != '\0' && r >= 0) {
        if (strncmp(word, HOST, sizeof HOST - 1) == 0) {
            r = mst_buf_append_text(out, host);
            word += sizeof HOST - 1;
        } else if (strncmp(word, COMMAND, sizeof COMMAND - 1) == 0) {
            r = mst_buf_append_text(out, command);
            word += sizeof COMMAND - 1;
        } else {
            r = mst_buf_append(out, word++, 1);
        }
    }
    return r;
}

void launcher_words_free(char **words)
{
    for (size_t i = 0; words && words[i]; i++)
        free(words[i]);
    free(words);
}

static void words_freep(char ***words)
{
    launcher_words_free(*words);
}

int launcher_words(const struct launcher *launcher, const char *host, const char *const *command,
                   char ***ret_words, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf joined = MST_BUF_INIT(WORD_MAX_BYTES);
    mst_cleanup(words_freep) char **words = NULL;
    size_t command_count = 0, count = 0;
    int r = check_word("host", host, false, err);

    for (; r >= 0 && command[command_count]; command_count++) {
        r = check_word("command", command[command_count], command_count > 0, err);
        if (r >= 0 && (mst_buf_append_text(&joined, command_count > 0 ? " " : "") < 0 ||
                       mst_buf_append_text(&joined, command[command_count]) < 0))
            r = mst_error_set(err, -EINVAL, "the command for '%s' is too long", host);
    }
    if (r < 0)
        return r;
    words = calloc(launcher->count * (command_count + 1) + 1, sizeof(char *));
    for (size_t i = 0; words && i < launcher->count; i++) {
        mst_cleanup(mst_buf_release) struct mst_buf word = MST_BUF_INIT(2 * WORD_MAX_BYTES);
        if (strcmp(launcher->words[i], COMMAND) == 0) {
            for (size_t k = 0; k < command_count; k++) {
                words[count] = strdup(command[k]);
                if (!words[count++])
                    return mst_error_set(err, -ENOMEM, "launcher: no memory");
            }
            continue;
        }
        if (append_replaced(&word, launcher->words[i], host, mst_buf_text(&joined)) < 0)
            return mst_error_set(err, -EINVAL, "the command for '%s' is too long", host);
        words[count] = strdup(mst_buf_text(&word));
        if (!words[count++])
            return mst_error_set(err, -ENOMEM, "launcher: no memory");
    }
    if (!words)
        return mst_error_set(err, -ENOMEM, "launcher: no memory");
    *ret_words = words;
    words = NULL;
    return 0;
}
