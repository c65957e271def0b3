/* SPDX-License-Identifier: Apache-2.0 */
/* Which runs, in which order: blocks in which every mode has its turn, forwards and backwards by turns (A B |
 * B A | ...), so that a drift of the machines meets all modes alike. No I/O. */
#include "experiment/conduct.h"
#include "muster/cleanup.h"
#include "muster/experiment.h"
#include "muster/parse.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *word, *label;
    enum conduct_kind kind;
    enum conduct_network network;
} kinds[] = {
    {"container", "containers, overlay", CONDUCT_CONTAINER, CONDUCT_NETWORK_OVERLAY},
    {"container-host", "containers, host network", CONDUCT_CONTAINER, CONDUCT_NETWORK_HOST},
    {"container-encrypted", "containers, encrypted overlay", CONDUCT_CONTAINER, CONDUCT_NETWORK_ENCRYPTED},
    {"bare", "bare metal", CONDUCT_PROCESS, CONDUCT_NETWORK_HOST},
};

/* The next word of a list with commas; false at its end. */
static bool next_word(const char **text, char *word, size_t bytes)
{
    const size_t count = strcspn(*text, ",");

    if (**text == '\0')
        return false;
    (void)snprintf(word, bytes, "%.*s", (int)(count < bytes ? count : bytes - 1), *text);
    *text += count + ((*text)[count] == ',');
    return true;
}

static unsigned count_named(const struct conduct_options *options, const char *word)
{
    const size_t bytes = strlen(word);
    unsigned count = 0;

    for (size_t i = 0; i < options->mode_count; i++) {
        const char *name = options->modes[i].name;
        count +=
            strncmp(name, word, bytes) == 0 &&
            (name[bytes] == '\0' || (name[bytes] == '-' && name[bytes + 1] >= '0' && name[bytes + 1] <= '9'));
    }
    return count;
}

static int add_mode(struct conduct_options *options, size_t kind, bool monitor, bool is_marked,
                    struct mst_error *err)
{
    struct conduct_mode *mode = &options->modes[options->mode_count];
    char word[CONDUCT_NAME_BYTES];
    unsigned before;

    if (options->mode_count == CONDUCT_MODES_MAX)
        return mst_error_set(err, -EINVAL, "more than %d modes", CONDUCT_MODES_MAX);
    (void)snprintf(word, sizeof word, "%s%s", kinds[kind].word, is_marked ? "-unwatched" : "");
    before = count_named(options, word);
    *mode =
        (struct conduct_mode){.kind = kinds[kind].kind, .network = kinds[kind].network, .monitor = monitor};
    (void)snprintf(mode->name, sizeof mode->name, before > 0 ? "%s-%u" : "%s", word, before + 1);
    (void)snprintf(mode->label, sizeof mode->label, before > 0 ? "%s%s (%u)" : "%s%s", kinds[kind].label,
                   is_marked ? ", no monitor" : "", before + 1);
    options->mode_count++;
    return 0;
}

static int add_kind(struct conduct_options *options, const char *word, enum conduct_monitor monitor,
                    struct mst_error *err)
{
    const char *names[MST_ARRAY_COUNT(kinds)], *nearest;
    int r;

    for (size_t k = 0; k < MST_ARRAY_COUNT(kinds); k++) {
        names[k] = kinds[k].word;
        if (strcmp(word, kinds[k].word) != 0)
            continue;
        r = add_mode(options, k, monitor != CONDUCT_MONITOR_OFF, false, err);
        /* What a monitor costs is asked of containers, whose monitors are containers beside them. */
        if (r >= 0 && monitor == CONDUCT_MONITOR_BOTH && kinds[k].kind == CONDUCT_CONTAINER)
            r = add_mode(options, k, false, true, err);
        return r;
    }
    nearest = mst_nearest(word, names, MST_ARRAY_COUNT(names));
    return mst_error_set(err, -EINVAL,
                         "'%s' is no mode (container, container-host, container-encrypted, bare)%s%s%s", word,
                         nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

int conduct_modes_parse(const char *text, bool with_host_network, enum conduct_monitor monitor,
                        struct conduct_options *options, struct mst_error *err)
{
    char word[64];
    int r = 0;

    options->mode_count = 0;
    while (r >= 0 && next_word(&text, word, sizeof word))
        r = add_kind(options, word, monitor, err);
    if (r >= 0 && with_host_network && count_named(options, "container-host") == 0)
        r = add_kind(options, "container-host", monitor, err);
    if (r >= 0 && options->mode_count < 2)
        r = mst_error_set(err, -EINVAL, "at least two modes, such as container,bare or bare,bare");
    options->baseline = 0;
    for (size_t i = options->mode_count; i > 0; i--) {
        if (options->modes[i - 1].kind == CONDUCT_PROCESS)
            options->baseline = i - 1; /* the first of them */
    }
    return r;
}

int conduct_exchanges_parse(const char *text, struct conduct_options *options, struct mst_error *err)
{
    static const char *const known[] = {"auto", "ring", "direct", "factors", "sharded"};
    char word[64];

    options->exchange_count = 0;
    while (next_word(&text, word, sizeof word)) {
        bool is_known = false;
        for (size_t i = 0; i < MST_ARRAY_COUNT(known); i++)
            is_known |= strcmp(word, known[i]) == 0;
        for (size_t i = 0; i < options->exchange_count; i++)
            is_known &= strcmp(word, options->exchanges[i]) != 0;
        if (!is_known || options->exchange_count == CONDUCT_EXCHANGES_MAX)
            return mst_error_set(err, -EINVAL,
                                 "'%s': expected auto, ring, direct, factors and sharded, each once", word);
        (void)snprintf(options->exchanges[options->exchange_count++], sizeof options->exchanges[0], "%s",
                       word);
    }
    return 0;
}

int conduct_workloads_parse(const char *text, struct conduct_options *options, struct mst_error *err)
{
    const bool is_both = strcmp(text, "1,2") == 0;

    if (!is_both && strcmp(text, "1") != 0 && strcmp(text, "2") != 0)
        return mst_error_set(err, -EINVAL, "'%s': expected 1, 2 (at once), or 1,2 for both experiments",
                             text);
    options->workloads[0] = text[0] == '2' ? 2 : 1;
    options->workloads[1] = 2;
    options->workloads_count = is_both ? 2 : 1;
    return 0;
}

bool conduct_needs_engine(const struct conduct_options *options)
{
    for (size_t i = 0; i < options->mode_count; i++) {
        if (options->modes[i].kind == CONDUCT_CONTAINER)
            return true;
    }
    return false;
}

bool conduct_needs_hosts(const struct conduct_options *options)
{
    for (size_t i = 0; i < options->mode_count; i++) {
        if (options->modes[i].network == CONDUCT_NETWORK_HOST)
            return true;
    }
    return false;
}

/* ---- cells ---- */

struct series {
    unsigned workloads, next_position;
    const char *exchange;
};

static void add_block(const struct conduct_options *options, struct series *series, unsigned block,
                      struct conduct_plan *plan)
{
    const bool is_warmup = block < options->warmups;
    const unsigned repeat = is_warmup ? 0 : block - options->warmups + 1;

    for (size_t m = 0; m < options->mode_count; m++) {
        struct conduct_cell *cell = &plan->cells[plan->count++];
        *cell = (struct conduct_cell){
            .mode = !is_warmup && repeat % 2 == 0 ? options->mode_count - 1 - m : m,
            .workloads = series->workloads,
            .repeat = repeat,
            .position = series->next_position++,
            .is_warmup = is_warmup,
        };
        (void)snprintf(cell->exchange, sizeof cell->exchange, "%s", series->exchange);
        (void)snprintf(cell->series, sizeof cell->series, "w%u-%s", series->workloads, series->exchange);
    }
}

int conduct_plan_make(const struct conduct_options *options, const char *exchange,
                      struct conduct_plan *ret_plan, struct mst_error *err)
{
    struct series series[CONDUCT_WORKLOADS_MAX * CONDUCT_EXCHANGES_MAX];
    const unsigned blocks = options->warmups + options->repeats;
    struct conduct_plan plan = {0};
    size_t count = 0;

    for (size_t w = 0; w < options->workloads_count; w++) {
        for (size_t e = 0; e < (options->exchange_count > 0 ? options->exchange_count : 1); e++)
            series[count++] =
                (struct series){.workloads = options->workloads[w],
                                .next_position = 1,
                                .exchange = options->exchange_count > 0 ? options->exchanges[e] : exchange};
    }
    if (count * blocks * options->mode_count * options->attempts > EXPERIMENT_RUNS_MAX)
        return mst_error_set(
            err, -EINVAL,
            "%zu runs with up to %u attempts each: an experiment takes at most %d attempts in all",
            count * blocks * options->mode_count, options->attempts, EXPERIMENT_RUNS_MAX);
    plan.cells = calloc(count * blocks * options->mode_count, sizeof *plan.cells);
    if (!plan.cells)
        return mst_error_set(err, -ENOMEM, "plan: no memory for %u blocks", blocks);
    for (unsigned block = 0; block < blocks; block++) {
        for (size_t s = 0; s < count; s++)
            add_block(options, &series[s], block, &plan);
    }
    *ret_plan = plan;
    return 0;
}

void conduct_plan_release(struct conduct_plan *plan)
{
    free(plan->cells);
    *plan = (struct conduct_plan){0};
}

struct conduct_cell *conduct_plan_find(const struct conduct_plan *plan, const char *series, size_t mode,
                                       unsigned repeat, unsigned position)
{
    for (size_t i = 0; i < plan->count; i++) {
        struct conduct_cell *cell = &plan->cells[i];
        if (strcmp(cell->series, series) == 0 && cell->mode == mode && cell->repeat == repeat &&
            cell->position == position)
            return cell;
    }
    return NULL;
}

size_t conduct_plan_left(const struct conduct_plan *plan)
{
    size_t count = 0;

    for (size_t i = 0; i < plan->count; i++)
        count += !plan->cells[i].is_complete && !plan->cells[i].is_given_up;
    return count;
}
