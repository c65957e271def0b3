/* SPDX-License-Identifier: Apache-2.0 */
#include "environment.h"

#include "muster/cleanup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    unsigned bit;
} frameworks_known[] = {
    {"tensorflow", EXEC_TENSORFLOW},
    {"torch", EXEC_TORCH},
    {"horovod", EXEC_HOROVOD},
    {"mpi", EXEC_MPI},
    {"env", EXEC_ENV},
};

int exec_frameworks_parse(const char *text, unsigned *ret_frameworks, struct mst_error *err)
{
    unsigned frameworks = 0;
    for (const char *next = text;; next++) {
        const size_t length = strcspn(next, ",");
        unsigned bit = 0;
        for (size_t f = 0; f < MST_ARRAY_COUNT(frameworks_known); f++)
            if (strlen(frameworks_known[f].name) == length &&
                strncmp(frameworks_known[f].name, next, length) == 0)
                bit = frameworks_known[f].bit;
        if (bit == 0)
            return mst_error_set(err, -EINVAL, "'%.*s' is none of tensorflow, torch, horovod, mpi and env",
                                 length < 64 ? (int)length : 64, next);
        frameworks |= bit;
        next += length;
        if (*next == '\0')
            break;
    }
    *ret_frameworks = frameworks;
    return 0;
}

bool exec_frameworks_launch(unsigned frameworks)
{
    return (frameworks & (EXEC_HOROVOD | EXEC_MPI)) != 0;
}

/* What the functions below share. The first error sticks. */
struct making {
    const struct exec_facts *facts;
    const struct exec_tools *tools;
    struct exec_strings *environment;
    char cidr[MST_IPV4_TEXT_BYTES + 3];
    int r;
    struct mst_error *err;
};

#define SET(making, name, ...)                                                                               \
    do {                                                                                                     \
        if ((making)->r == 0)                                                                                \
            (making)->r = exec_strings_set((making)->environment, (making)->err, (name), __VA_ARGS__);       \
    } while (0)

/* Only where the user has not said otherwise. */
#define ADVISE(making, name, ...)                                                                            \
    do {                                                                                                     \
        if (!exec_strings_value((making)->environment, (name)))                                              \
            SET(making, name, __VA_ARGS__);                                                                  \
    } while (0)

static void keep(struct making *making, const char *name, int r)
{
    if (r < 0 && making->r == 0)
        making->r = mst_error_errno(making->err, r, "variable %s", name);
}

static void set_muster(struct making *making)
{
    const struct exec_facts *facts = making->facts;
    const struct exec_member *self = &facts->members[facts->rank];
    char address[MST_IPV4_TEXT_BYTES];
    mst_cleanup(mst_buf_release) struct mst_buf members = MST_BUF_INIT(EXEC_FACTS_MAX_BYTES * 2);
    int r = 0;
    for (uint32_t m = 0; r == 0 && m < facts->world; m++)
        r = mst_buf_printf(&members, "%s%s=%s:%u", m > 0 ? "," : "", facts->members[m].slot,
                           mst_ipv4_text(facts->members[m].ipv4, address), (unsigned)facts->members[m].port);
    keep(making, "MUSTER_MEMBERS", r);
    SET(making, "MUSTER_MEMBERS", "%s", mst_buf_text(&members));
    SET(making, "MUSTER_RANK", "%" PRIu32, facts->rank);
    SET(making, "MUSTER_WORLD", "%" PRIu32, facts->world);
    SET(making, "MUSTER_VIEW", "%" PRIu64, facts->view);
    SET(making, "MUSTER_SLOT", "%s", self->slot);
    SET(making, "MUSTER_ADDRESS", "%s", mst_ipv4_text(self->ipv4, address));
    SET(making, "MUSTER_INTERFACE", "%s", facts->interface);
    SET(making, "MUSTER_CHIEF", "%s:%u", mst_ipv4_text(facts->members[0].ipv4, address),
        (unsigned)facts->members[0].port);
    SET(making, "MUSTER_PORT", "%u", (unsigned)self->agent_port); /* `rsh` and `health` ask the agent there */
    exec_strings_unset(making->environment, "MUSTER_HOSTFILE");
    exec_strings_unset(making->environment, "MUSTER_RSH");
    exec_strings_unset(making->environment, "MUSTER_KEY_FILE"); /* nothing that the program has to know */
    if (making->tools->host_file)
        SET(making, "MUSTER_HOSTFILE", "%s", making->tools->host_file);
}

static void set_tensorflow(struct making *making)
{
    const struct exec_facts *facts = making->facts;
    mst_cleanup(mst_buf_release) struct mst_buf json = MST_BUF_INIT(EXEC_FACTS_MAX_BYTES);
    int r = mst_buf_append_text(&json, "{\"cluster\":{\"worker\":[");
    for (uint32_t m = 0; r == 0 && m < facts->world; m++) {
        char address[MST_IPV4_TEXT_BYTES];
        r = mst_buf_printf(&json, "%s\"%s:%u\"", m > 0 ? "," : "",
                           mst_ipv4_text(facts->members[m].ipv4, address), (unsigned)facts->members[m].port);
    }
    if (r == 0)
        r = mst_buf_printf(&json, "]},\"task\":{\"type\":\"worker\",\"index\":%" PRIu32 "}}", facts->rank);
    keep(making, "TF_CONFIG", r);
    SET(making, "TF_CONFIG", "%s", mst_buf_text(&json));
}

static void set_torch(struct making *making)
{
    const struct exec_facts *facts = making->facts;
    char address[MST_IPV4_TEXT_BYTES];
    SET(making, "RANK", "%" PRIu32, facts->rank);
    SET(making, "WORLD_SIZE", "%" PRIu32, facts->world);
    SET(making, "LOCAL_RANK", "%" PRIu32, exec_facts_local_rank(facts, facts->rank));
    SET(making, "LOCAL_WORLD_SIZE", "%" PRIu32, exec_facts_local_world(facts, facts->rank));
    SET(making, "MASTER_ADDR", "%s", mst_ipv4_text(facts->members[0].ipv4, address));
    SET(making, "MASTER_PORT", "%u", (unsigned)facts->members[0].port);
    ADVISE(making, "GLOO_SOCKET_IFNAME", "%s", facts->interface);
    ADVISE(making, "TP_SOCKET_IFNAME", "%s", facts->interface);
}

/* NCCL takes a name for the beginning of names, unless '=' stands in front. */
static void set_nccl(struct making *making)
{
    ADVISE(making, "NCCL_SOCKET_IFNAME", "=%s", making->facts->interface);
}

static void set_launching(struct making *making)
{
    if (making->tools->program)
        SET(making, "MUSTER_RSH", "%s rsh", making->tools->program);
}

/* Open MPI reads its parameters from variables of this form. */
static void set_mpi(struct making *making)
{
    if (making->tools->program)
        ADVISE(making, "OMPI_MCA_plm_rsh_agent", "%s rsh", making->tools->program);
    if (making->tools->host_file)
        ADVISE(making, "OMPI_MCA_orte_default_hostfile", "%s", making->tools->host_file);
    /* By subnet: the interfaces of other workers may have other names. */
    ADVISE(making, "OMPI_MCA_btl_tcp_if_include", "%s", making->cidr);
    ADVISE(making, "OMPI_MCA_oob_tcp_if_include", "%s", making->cidr);
}

/* horovodrun calls `ssh` and takes no other name: ours stands first in PATH. */
static void set_horovod(struct making *making)
{
    const char *path = exec_strings_value(making->environment, "PATH");
    ADVISE(making, "HOROVOD_GLOO_IFACE", "%s", making->facts->interface);
    if (making->tools->folder)
        SET(making, "PATH", "%s:%s", making->tools->folder,
            path ? path : "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
}

int exec_environment(unsigned frameworks, const struct exec_facts *facts, const struct exec_tools *tools,
                     char *const *base, struct exec_strings *ret_environment, struct mst_error *err)
{
    mst_cleanup(exec_strings_release) struct exec_strings environment = {0};
    struct making making = {.facts = facts, .tools = tools, .environment = &environment, .err = err};
    char network[MST_IPV4_TEXT_BYTES];
    (void)snprintf(making.cidr, sizeof making.cidr, "%s/%" PRIu32,
                   mst_ipv4_text(facts->subnet.network, network), facts->subnet.prefix);
    making.r = exec_strings_add_all(&environment, base, err);
    set_muster(&making);
    if (frameworks & EXEC_TENSORFLOW)
        set_tensorflow(&making);
    if (frameworks & EXEC_TORCH)
        set_torch(&making);
    if (frameworks & (EXEC_TORCH | EXEC_HOROVOD))
        set_nccl(&making);
    if (exec_frameworks_launch(frameworks)) {
        set_launching(&making);
        set_mpi(&making); /* Horovod may run over MPI, too */
    }
    if (frameworks & EXEC_HOROVOD)
        set_horovod(&making);
    if (making.r < 0)
        return making.r;
    *ret_environment = environment;
    environment = (struct exec_strings){0}; /* the caller's now */
    return 0;
}

int exec_host_file(const struct exec_facts *facts, struct mst_buf *ret_text, struct mst_error *err)
{
    for (uint32_t m = 0; m < facts->world; m++) {
        char address[MST_IPV4_TEXT_BYTES];
        if (exec_facts_local_rank(facts, m) > 0)
            continue;
        const int r =
            mst_buf_printf(ret_text, "%s slots=%" PRIu32 "\n", mst_ipv4_text(facts->members[m].ipv4, address),
                           exec_facts_local_world(facts, m));
        if (r < 0)
            return mst_error_errno(err, r, "host file");
    }
    return 0;
}
