/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"
#include "train_progress.h"

#include <errno.h>
#include <sys/ioctl.h>

static const struct train_place place = {.epoch = 2,
                                         .epochs = 10,
                                         .step = 469,
                                         .steps = 938,
                                         .made = 469,
                                         .done = 1407,
                                         .all = 9380,
                                         .loss = 0.08125,
                                         .accuracy = 0.97449,
                                         .has_accuracy = true,
                                         .ms_per_step = 12.34,
                                         .samples = 64};

static void the_bar_says_how_far_how_fast_and_how_long(void **state)
{
    (void)state;
    char text[PROGRESS_LINE_BYTES];
    progress_text(&place, 80, 200, text);
    assert_string_equal(text,
                        "2/10 [#######-------] 469/938  ETA 1:40  loss 0.0813 acc 0.974  5120 samples/s  "
                        "12.3 ms/step");
    struct train_place targets = place;
    targets.has_accuracy = false;
    targets.step = targets.steps;
    progress_text(&targets, 1, 200, text);
    assert_string_equal(text, "2/10 [##############] 938/938  ETA 2:12:53  loss 0.0813  64 samples/s  "
                              "12.3 ms/step");
    progress_text(&targets, 0, 200, text); /* no pace is known yet */
    assert_string_equal(text, "2/10 [##############] 938/938  ETA ?  loss 0.0813  12.3 ms/step");
}

static void a_narrow_terminal_gets_what_fits(void **state)
{
    (void)state;
    char text[PROGRESS_LINE_BYTES];
    progress_text(&place, 80, 79, text); /* whole parts only */
    assert_string_equal(text,
                        "2/10 [#######-------] 469/938  ETA 1:40  loss 0.0813 acc 0.974  5120 samples/s");
    progress_text(&place, 80, 60, text);
    assert_string_equal(text, "2/10 [#######-------] 469/938  ETA 1:40  loss 0.0813");
    progress_text(&place, 80, 38, text);
    assert_string_equal(text, "2/10 [#######-------] 469/938");
    progress_text(&place, 80, 1, text);
    assert_string_equal(text, "2");
}

static int open_terminal(void)
{
    const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
        skip(); /* no terminals here */
    return master;
}

/* What was written to the other side of a terminal. */
static void read_all(int fd, char *text, size_t capacity)
{
    size_t used = 0;
    ssize_t n;
    while (used + 1 < capacity && (n = read(fd, text + used, capacity - 1 - used)) > 0)
        used += (size_t)n;
    text[used] = '\0';
}

static void an_epoch_tells_what_is_left_by_its_own_pace(void **state)
{
    (void)state;
    struct agent_config config = {.standalone = true};
    struct train_progress progress;
    struct train_place at = {.epoch = 1,
                             .epochs = 2,
                             .step = 10,
                             .steps = 10,
                             .made = 5,
                             .done = 10,
                             .all = 20,
                             .loss = 1,
                             .ms_per_step = 2,
                             .samples = 8};
    char text[1024];
    const int master = open_terminal();
    const int terminal = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(terminal >= 0);
    assert_int_equal(setenv("TERM", "xterm", 1), 0);
    progress_begin(&progress, &config, terminal);
    progress_epoch(&progress, &at, 0.5, NULL); /* no step was drawn: the bar knows no pace */
    at.done = at.all;
    progress_epoch(&progress, &at, 0.5, NULL);
    read_all(master, text, sizeof text);
    assert_string_equal(text, "epoch 1/2: loss 1.0000; 0.5 s, 2.0 ms/step, 80 samples/s, 0:01 left\r\n"
                              "epoch 1/2: loss 1.0000; 0.5 s, 2.0 ms/step, 80 samples/s\r\n");
    (void)close(terminal);
    (void)close(master);
}

static void a_terminal_gets_a_bar_and_lines_above_it(void **state)
{
    (void)state;
    struct agent_config config = {.standalone = true};
    struct train_progress progress;
    char text[4096];
    const int master = open_terminal();
    const int terminal = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(terminal >= 0);
    const struct winsize size = {.ws_row = 25, .ws_col = 30};
    assert_int_equal(ioctl(master, TIOCSWINSZ, &size), 0);
    assert_int_equal(setenv("TERM", "xterm", 1), 0);

    progress_begin(&progress, &config, terminal);
    progress_step(&progress, &place);
    progress_step(&progress, &place); /* too soon for another drawing */
    progress_epoch(&progress, &place, 4, &(struct trainer_evaluation){.loss = 0.5, .accuracy = 0.75});
    progress_line(&progress, "a file \033[2J of %d", 7);
    progress_clear(&progress); /* there is no bar: nothing to take away */
    read_all(master, text, sizeof text);
    assert_string_equal(text,
                        "\r2/10 [#######-------] 469/938\033[K"
                        "\r\033[K"
                        "epoch 2/10: loss 0.0813, accuracy 0.9745; validation: loss 0.5000, accuracy 0.7500; "
                        "4.0 s, 12.3 ms/step, 7504 samples/s, 1:08 left\r\n"
                        "a file ?[2J of 7\r\n");

    assert_int_equal(setenv("TERM", "dumb", 1), 0);
    progress_begin(&progress, &config, terminal);
    assert_true(progress.shows && !progress.is_terminal);
    assert_int_equal(setenv("TERM", "xterm", 1), 0);
    config.progress = CONFIG_PROGRESS_LINES;
    progress_begin(&progress, &config, terminal);
    assert_true(progress.shows && !progress.is_terminal);
    config.progress = CONFIG_PROGRESS_NONE;
    progress_begin(&progress, &config, terminal);
    progress_step(&progress, &place);
    progress_line(&progress, "nothing");
    config = (struct agent_config){0}; /* not alone: events tell */
    progress_begin(&progress, &config, terminal);
    progress_step(&progress, &place);
    progress_line(&progress, "nothing");
    read_all(master, text, sizeof text);
    assert_string_equal(text, "");
    (void)close(terminal);
    (void)close(master);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bar_says_how_far_how_fast_and_how_long),
        cmocka_unit_test(a_narrow_terminal_gets_what_fits),
        cmocka_unit_test(an_epoch_tells_what_is_left_by_its_own_pace),
        cmocka_unit_test(a_terminal_gets_a_bar_and_lines_above_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
