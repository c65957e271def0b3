/* SPDX-License-Identifier: Apache-2.0 */
/* A deployment of one file on a scripted engine, in this process. */
#ifndef TESTS_FAULTS_DEPLOY_BENCH_H
#define TESTS_FAULTS_DEPLOY_BENCH_H

#include "../common/test.h"
#include "deploy.h"
#include "fake_engine.h"
#include "muster/clock.h"

struct bench {
    struct fake_engine *fake;
    struct session session;
    struct compose_project *project;
    FILE *log; /* takes the report */
    char *log_text;
    size_t log_bytes;
    struct mst_error err;
};

static inline void set_file(struct bench *bench, const char *text)
{
    const struct compose_options options = {.stack = "st"};

    compose_project_free(bench->project);
    bench->project = NULL;
    if (compose_project_parse(text, strlen(text), "st.yml", "/", &options, &bench->project, &bench->err) < 0)
        fail_msg("%s", bench->err.text);
}

static inline void open_bench(struct bench *bench, const char *file, struct fake_rule *rules,
                              size_t rule_count)
{
    *bench = (struct bench){.fake = fake_engine_start(rules, rule_count)};
    assert_int_equal(session_open(&bench->session, fake_engine_host(bench->fake), NULL, NULL), 0);
    bench->log = open_memstream(&bench->log_text, &bench->log_bytes);
    assert_non_null(bench->log);
    bench->session.report.stream = bench->log;
    bench->session.report.is_terminal = false;
    set_file(bench, file);
}

static inline void close_bench(struct bench *bench)
{
    session_close(&bench->session);
    compose_project_free(bench->project);
    (void)fclose(bench->log);
    free(bench->log_text);
    fake_engine_stop(bench->fake);
}

static inline int deploy(struct bench *bench)
{
    const struct deploy_options options = {
        .resolve = IMAGE_NEVER,
        .detach = true,
        .deadline_ns = mst_now_ns() + 20 * MST_NS_PER_S,
    };

    return deploy_stack(&bench->session, bench->project, &options, NULL, &bench->err);
}

#endif
