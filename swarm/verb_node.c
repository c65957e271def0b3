/* SPDX-License-Identifier: Apache-2.0 */
/* muster node check */
#include "cli.h"
#include "muster/cleanup.h"
#include "muster/parse.h"
#include "nodecheck.h"

#include <string.h>

struct node_settings {
    struct cli_common common;
    bool no_network;
};

CLI_SET_FLAG(set_no_network, struct node_settings, no_network)

static const struct mst_option table[] = {
    {.name = "compose-file",
     .letter = 'c',
     .kind = MST_OPT_REPEAT,
     .argument = "FILE",
     .set = cli_set_file,
     .help = "also look at this stack's pins and images"},
    {.name = "set",
     .letter = 'e',
     .kind = MST_OPT_REPEAT,
     .argument = "NAME=VALUE",
     .set = cli_set_variable,
     .help = "a variable for the stack file, over the environment's"},
    {.name = "env-file",
     .kind = MST_OPT_REPEAT,
     .argument = "FILE",
     .set = cli_set_env_file,
     .help = "variables behind the environment's (default: .env beside the first stack file)"},
    {.name = "strict",
     .kind = MST_OPT_FLAG,
     .env = "MUSTER_STRICT",
     .set = cli_set_strict,
     .help = "what a stack ignores in the file is an error"},
    CLI_NODES_FILE_OPTION,
    {.name = "no-network",
     .kind = MST_OPT_FLAG,
     .set = set_no_network,
     .help = "leave out ports and packet sizes: the nodes' addresses are not reached from here"},
    CLI_FORMAT_OPTION,
    CLI_COMMON_OPTIONS,
};

static const struct mst_options options = {
    .program = "muster",
    .verb = "node",
    .synopsis = "check [options] [-c FILE... STACK]",
    .about = "Is the swarm fit for a stack? Looks at the nodes' states, names and addresses, at Swarm's "
             "ports and the\n"
             "packet sizes on the way to them, at the clocks and images of each node's engine "
             "(--nodes-file), and\n"
             "at the stack's pins. Exit status 1: a check failed.",
    .table = table,
    .count = MST_ARRAY_COUNT(table),
};

static int print_findings(const struct findings *findings, enum output_format format, struct mst_error *err)
{
    static const struct output_column columns[] = {
        {"node", "NODE"}, {"check", "CHECK"}, {"result", "RESULT"}, {"detail", "DETAIL"}};
    mst_cleanup(output_release) struct output output = {0};
    int r = output_init(&output, format, columns, MST_ARRAY_COUNT(columns), err);

    for (size_t i = 0; i < findings->count && r >= 0; i++) {
        const struct finding *finding = &findings->items[i];
        if (finding->node[0] != '\0')
            output_text(&output, "%s", finding->node);
        else
            output_nothing(&output);
        output_text(&output, "%s", finding->check);
        output_text(&output, "%s", finding_result_text(finding->result));
        output_text(&output, "%s", finding->detail);
    }
    return r < 0 ? r : output_print(&output, err);
}

static int check_network(struct cli_project *work, const struct swarm_nodes *nodes, struct findings *findings,
                         struct mst_error *err)
{
    const bool is_by_file = strncmp(engine_host(work->session.engine), "unix://", 7) == 0;
    struct engine_info info;
    const int r = session_info(&work->session, &info, err);

    return r < 0 ? r
                 : nodecheck_network(nodes, work->project, is_by_file ? info.node_id : NULL,
                                     work->session.signal_fd, findings, err);
}

static int check(struct cli_project *work, const struct node_settings *settings, struct findings *findings,
                 struct mst_error *err)
{
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};
    mst_cleanup(nodesfile_release) struct nodesfile file = {0};
    int r = 0;

    if (settings->common.nodes_file)
        r = nodesfile_read(settings->common.nodes_file, &file, err);
    if (r >= 0)
        r = swarm_nodes_load(work->session.engine, &nodes, err);
    if (r < 0)
        return r;
    nodecheck_nodes(&nodes, findings);
    if (!settings->no_network)
        r = check_network(work, &nodes, findings, err);
    if (r >= 0 && settings->common.nodes_file)
        r = nodecheck_engines(&work->session, &file, &nodes, work->project, findings, err);
    if (r >= 0 && work->project)
        nodecheck_stack(work->project, &nodes, findings);
    if (r >= 0 && findings->no_memory)
        r = mst_error_set(err, -ENOMEM, "node check: no memory");
    return r;
}

int verb_node(int argc, char **argv)
{
    mst_cleanup(findings_release) struct findings findings = {0};
    struct node_settings settings = {0};
    struct cli_project work = {0};
    struct mst_error err = MST_ERROR_INIT;
    int status, r;
    const int first = cli_begin(&options, argc, argv, &settings.common, 1, 2, &status);
    const bool has_stack = first >= 0 && argc - first == 2;

    if (first < 0)
        return status;
    if (strcmp(argv[first], "check") != 0)
        (void)mst_error_set(&err, -EINVAL, "'node %.64s': the only verb for nodes is 'check'", argv[first]);
    else if (has_stack != (settings.common.file_count > 0))
        (void)mst_error_set(&err, -EINVAL, "a stack needs both its name and its file (option '-c')");
    if (err.code != 0)
        return cli_usage(&err);
    status = has_stack ? cli_project_open(&settings.common, argv[first + 1], &work)
                       : cli_open(&settings.common, &work.session);
    if (status != 0)
        return status;
    r = check(&work, &settings, &findings, &err);
    if (r >= 0)
        r = print_findings(&findings, settings.common.format, &err);
    if (r >= 0 && findings_count(&findings, FINDING_FAILED) > 0)
        r = mst_error_set(&err, -EHOSTUNREACH, "%zu of %zu checks failed",
                          findings_count(&findings, FINDING_FAILED), findings.count);
    return cli_project_end(&work, r, &err);
}
