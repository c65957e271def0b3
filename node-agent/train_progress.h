/* SPDX-License-Identifier: Apache-2.0 */
/* How a training alone goes, for whoever started it: a bar on a terminal, redrawn in place, with a line above
 * it for each epoch; log lines, one an epoch, elsewhere. */
#ifndef AGENT_TRAIN_PROGRESS_H
#define AGENT_TRAIN_PROGRESS_H

#include "config.h"
#include "muster/trainer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct train_progress {
    bool shows, is_terminal;
    int fd;
    bool drawn; /* the bar stands on the terminal's last line */
    uint64_t next_ns;
    /* The pace: steps a second, a mean that forgets; and from where it goes on. */
    double steps_per_s;
    uint64_t mark_ns, mark_step;
};

/* Where the training is. */
struct train_place {
    uint32_t epoch, epochs; /* from 1 */
    uint64_t step, steps;   /* of this epoch, made and planned */
    uint64_t made;          /* of them, by this process */
    uint64_t done, all;     /* of the training */
    double loss, accuracy;  /* means over this epoch's steps */
    bool has_accuracy;
    double ms_per_step;
    uint64_t samples; /* of a step */
};

/* Decides how: `fd` is stderr. */
void progress_begin(struct train_progress *progress, const struct agent_config *config, int fd);
/* A step is made: draws at most ten times a second. */
void progress_step(struct train_progress *progress, const struct train_place *place);
/* An epoch is over: a line that stays. `validation` may be NULL. */
void progress_epoch(struct train_progress *progress, const struct train_place *place, double seconds,
                    const struct trainer_evaluation *validation);
/* Another line that stays. */
void progress_line(struct train_progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same where it has to be said in any case: a log line where nothing else is shown. */
void progress_say(struct train_progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Take the bar away: something else is to be written, or it is over. */
void progress_clear(struct train_progress *progress);

/* The bar's line, as much of it as fits into `columns`: for its test. */
#define PROGRESS_LINE_BYTES 256
void progress_text(const struct train_place *place, double steps_per_s, size_t columns,
                   char text[static PROGRESS_LINE_BYTES]);

#endif
