/* SPDX-License-Identifier: Apache-2.0 */
/* muster config */
#include "cli.h"
#include "muster/cleanup.h"
#include "muster/file.h"

#include <unistd.h>

#define PROJECT_MAX_BYTES ((size_t)64 << 20)

static const struct mst_option table[] = {CLI_FILE_OPTIONS, CLI_COMMON_OPTIONS};

static const struct mst_options options = {
    .program = "muster",
    .verb = "config",
    .synopsis = "[options] -c FILE... [STACK]",
    .about = "Print what the files say when they are read together, with variables replaced. Asks no engine.",
    .table = table,
    .count = MST_ARRAY_COUNT(table),
};

int verb_config(int argc, char **argv)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(PROJECT_MAX_BYTES);
    mst_cleanup(cli_project_release) struct cli_project work = {0};
    struct cli_common common = {0};
    struct mst_error err = MST_ERROR_INIT;
    int status, r;
    const int first = cli_begin(&options, argc, argv, &common, 0, 1, &status);

    if (first < 0)
        return status;
    if (cli_project_read(&common, first < argc ? argv[first] : NULL, &work, &err) < 0)
        return cli_usage(&err);
    r = compose_project_print(work.project, &text);
    if (r >= 0)
        r = mst_write_all(STDOUT_FILENO, mst_buf_text(&text), text.count);
    if (r < 0)
        r = output_failed(r, &err);
    return cli_end(NULL, r, &err);
}
