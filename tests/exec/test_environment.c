/* SPDX-License-Identifier: Apache-2.0 */
#include "../agent/test.h"
#include "environment.h"

static struct exec_facts three(void)
{
    static struct exec_member members[3] = {
        {.slot = "w1.1", .ipv4 = 0x0a000005, .agent_port = 7070, .port = 20001},
        {.slot = "w2.1", .ipv4 = 0x0a000007, .agent_port = 7070, .port = 20002},
        {.slot = "w3.1", .ipv4 = 0x0a000007, .agent_port = 7071, .port = 20003},
    };
    return (struct exec_facts){.view = 4,
                               .rank = 2,
                               .world = 3,
                               .interface = "eth0",
                               .subnet = {0x0a000000, 24},
                               .members = members};
}

static const struct exec_tools tools = {
    .program = "/opt/muster-launch", .folder = "/tmp/x", .host_file = "/tmp/x/hosts"};

static struct exec_strings made(unsigned frameworks, char *const *base)
{
    const struct exec_facts facts = three();
    struct exec_strings environment = {0};
    struct mst_error err = MST_ERROR_INIT;
    assert_int_equal(exec_environment(frameworks, &facts, &tools, base, &environment, &err), 0);
    return environment;
}

static void check(const struct exec_strings *environment, const char *name, const char *value)
{
    const char *found = exec_strings_value(environment, name);
    if (!value) {
        assert_null(found);
        return;
    }
    if (!found)
        fail_msg("%s is not set", name);
    assert_string_equal(found, value);
}

static void frameworks_are_read_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int code;
        unsigned frameworks;
    } cases[] = {
        {"torch", 0, EXEC_TORCH}, {"tensorflow,torch,horovod,mpi,env", 0, 31},
        {"env,env", 0, EXEC_ENV}, {"", -EINVAL, 99},
        {"torch,", -EINVAL, 99},  {",torch", -EINVAL, 99},
        {"Torch", -EINVAL, 99},   {"torch mpi", -EINVAL, 99},
        {"torchx", -EINVAL, 99},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        unsigned frameworks = 99;
        struct mst_error err = MST_ERROR_INIT;
        assert_int_equal(exec_frameworks_parse(cases[c].text, &frameworks, &err), cases[c].code);
        assert_int_equal(frameworks, cases[c].frameworks);
    }
    assert_false(exec_frameworks_launch(EXEC_TORCH | EXEC_TENSORFLOW | EXEC_ENV));
    assert_true(exec_frameworks_launch(EXEC_TORCH | EXEC_MPI));
    assert_true(exec_frameworks_launch(EXEC_HOROVOD));
}

static void torch_is_told_by_addresses_and_by_the_interface(void **state)
{
    (void)state;
    char home[] = "HOME=/root", old[] = "RANK=7";
    char *const base[] = {home, old, NULL};
    struct exec_strings environment = made(EXEC_TORCH, base);
    check(&environment, "HOME", "/root");
    check(&environment, "RANK", "2");
    check(&environment, "WORLD_SIZE", "3");
    check(&environment, "LOCAL_RANK", "1"); /* w2 is at the same address */
    check(&environment, "LOCAL_WORLD_SIZE", "2");
    check(&environment, "MASTER_ADDR", "10.0.0.5");
    check(&environment, "MASTER_PORT", "20001");
    check(&environment, "GLOO_SOCKET_IFNAME", "eth0");
    check(&environment, "TP_SOCKET_IFNAME", "eth0");
    check(&environment, "NCCL_SOCKET_IFNAME", "=eth0");
    check(&environment, "TF_CONFIG", NULL);
    check(&environment, "OMPI_MCA_plm_rsh_agent", NULL);
    check(&environment, "MUSTER_RSH", NULL);
    exec_strings_release(&environment);
}

static void tensorflow_is_told_every_workers_own_port(void **state)
{
    (void)state;
    char *const base[] = {NULL};
    struct exec_strings environment = made(EXEC_TENSORFLOW, base);
    check(&environment, "TF_CONFIG",
          "{\"cluster\":{\"worker\":[\"10.0.0.5:20001\",\"10.0.0.7:20002\",\"10.0.0.7:20003\"]},"
          "\"task\":{\"type\":\"worker\",\"index\":2}}");
    check(&environment, "RANK", NULL);
    exec_strings_release(&environment);
}

static void mpi_and_horovod_are_told_how_to_launch(void **state)
{
    (void)state;
    char path[] = "PATH=/bin";
    char *const base[] = {path, NULL};
    struct exec_strings environment = made(EXEC_MPI, base);
    check(&environment, "OMPI_MCA_plm_rsh_agent", "/opt/muster-launch rsh");
    check(&environment, "OMPI_MCA_orte_default_hostfile", "/tmp/x/hosts");
    check(&environment, "OMPI_MCA_btl_tcp_if_include", "10.0.0.0/24");
    check(&environment, "OMPI_MCA_oob_tcp_if_include", "10.0.0.0/24");
    check(&environment, "MUSTER_RSH", "/opt/muster-launch rsh");
    check(&environment, "PATH", "/bin");
    exec_strings_release(&environment);

    environment = made(EXEC_HOROVOD, base);
    check(&environment, "PATH", "/tmp/x:/bin"); /* the stand-in for ssh is found first */
    check(&environment, "HOROVOD_GLOO_IFACE", "eth0");
    check(&environment, "OMPI_MCA_plm_rsh_agent", "/opt/muster-launch rsh");
    exec_strings_release(&environment);

    char *const nothing[] = {NULL};
    environment = made(EXEC_HOROVOD, nothing);
    check(&environment, "PATH", "/tmp/x:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    exec_strings_release(&environment);
}

static void every_program_gets_the_plain_variables(void **state)
{
    (void)state;
    char key[] = "MUSTER_KEY_FILE=/run/secrets/key", rsh[] = "MUSTER_RSH=/old";
    char *const base[] = {key, rsh, NULL};
    struct exec_strings environment = made(EXEC_ENV, base);
    check(&environment, "MUSTER_RANK", "2");
    check(&environment, "MUSTER_WORLD", "3");
    check(&environment, "MUSTER_VIEW", "4");
    check(&environment, "MUSTER_SLOT", "w3.1");
    check(&environment, "MUSTER_ADDRESS", "10.0.0.7");
    check(&environment, "MUSTER_INTERFACE", "eth0");
    check(&environment, "MUSTER_PORT", "7071");
    check(&environment, "MUSTER_CHIEF", "10.0.0.5:20001");
    check(&environment, "MUSTER_MEMBERS", "w1.1=10.0.0.5:20001,w2.1=10.0.0.7:20002,w3.1=10.0.0.7:20003");
    check(&environment, "MUSTER_HOSTFILE", "/tmp/x/hosts");
    check(&environment, "MUSTER_KEY_FILE", NULL);
    check(&environment, "MUSTER_RSH", NULL); /* nothing is launched: an older one would be wrong */
    exec_strings_release(&environment);
}

static void what_the_user_has_said_about_interfaces_stays(void **state)
{
    (void)state;
    char gloo[] = "GLOO_SOCKET_IFNAME=ib0", agent[] = "OMPI_MCA_plm_rsh_agent=ssh", port[] = "MASTER_PORT=1";
    char *const base[] = {gloo, agent, port, NULL};
    struct exec_strings environment = made(EXEC_TORCH | EXEC_MPI, base);
    check(&environment, "GLOO_SOCKET_IFNAME", "ib0");
    check(&environment, "OMPI_MCA_plm_rsh_agent", "ssh");
    check(&environment, "MASTER_PORT", "20001"); /* where to meet is not advice */
    exec_strings_release(&environment);
}

static void without_a_folder_nothing_points_to_one(void **state)
{
    (void)state;
    const struct exec_facts facts = three();
    const struct exec_tools none = {0};
    char old[] = "MUSTER_HOSTFILE=/gone";
    char *const base[] = {old, NULL};
    struct exec_strings environment = {0};
    assert_int_equal(exec_environment(EXEC_HOROVOD | EXEC_MPI, &facts, &none, base, &environment, NULL), 0);
    check(&environment, "MUSTER_HOSTFILE", NULL);
    check(&environment, "OMPI_MCA_orte_default_hostfile", NULL);
    check(&environment, "OMPI_MCA_plm_rsh_agent", NULL);
    check(&environment, "PATH", NULL);
    exec_strings_release(&environment);
}

static void a_variable_that_no_program_can_be_given_is_an_error(void **state)
{
    (void)state;
    struct exec_member *members = calloc(EXEC_MEMBERS_MAX, sizeof *members);
    assert_non_null(members);
    for (size_t m = 0; m < EXEC_MEMBERS_MAX; m++) {
        members[m] = (struct exec_member){.ipv4 = 0xc0a8ffff, .agent_port = 7070, .port = 20000};
        memset(members[m].slot, 'x', sizeof members[m].slot - 1);
    }
    const struct exec_facts facts = {
        .world = EXEC_MEMBERS_MAX, .interface = "eth0", .subnet = {0xc0a80000, 16}, .members = members};
    char *const base[] = {NULL};
    struct exec_strings environment = {0};
    struct mst_error err = MST_ERROR_INIT;
    assert_int_equal(exec_environment(EXEC_ENV, &facts, &tools, base, &environment, &err), -E2BIG);
    assert_non_null(strstr(err.text, "MUSTER_MEMBERS"));
    assert_int_equal(environment.count, 0);
    for (size_t m = 0; m < EXEC_MEMBERS_MAX; m++)
        members[m].slot[20] = '\0'; /* names as people give them */
    assert_int_equal(exec_environment(31, &facts, &tools, base, &environment, &err), 0);
    exec_strings_release(&environment);
    free(members);
}

static void the_host_file_counts_workers_at_one_address_as_slots(void **state)
{
    (void)state;
    const struct exec_facts facts = three();
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(1000);
    assert_int_equal(exec_host_file(&facts, &text, NULL), 0);
    assert_string_equal(mst_buf_text(&text), "10.0.0.5 slots=1\n10.0.0.7 slots=2\n");
}

static void lists_of_texts_keep_to_their_limits(void **state)
{
    (void)state;
    mst_cleanup(exec_strings_release) struct exec_strings list = {0};
    struct mst_error err = MST_ERROR_INIT;
    for (int i = 0; i < 200; i++)
        assert_int_equal(exec_strings_set(&list, &err, "NAME", "%d", i), 0);
    assert_int_equal(list.count, 1);
    assert_string_equal(list.items[0], "NAME=199");
    assert_null(list.items[1]);
    for (int i = 0; i < 200; i++)
        assert_int_equal(exec_strings_add(&list, &err, "V%d=%d", i, i), 0);
    assert_string_equal(exec_strings_value(&list, "V150"), "150");
    assert_null(exec_strings_value(&list, "V15X"));
    exec_strings_unset(&list, "V0");
    exec_strings_unset(&list, "no such one");
    assert_int_equal(list.count, 200);
    assert_null(list.items[list.count]);

    char *huge = malloc(EXEC_STRING_MAX_BYTES + 1);
    assert_non_null(huge);
    memset(huge, 'x', EXEC_STRING_MAX_BYTES);
    huge[EXEC_STRING_MAX_BYTES] = '\0';
    assert_int_equal(exec_strings_add(&list, &err, "%s", huge), -E2BIG);
    huge[EXEC_STRING_MAX_BYTES - 1] = '\0';
    assert_int_equal(exec_strings_add(&list, &err, "%s", huge), 0);
    assert_int_equal(list.count, 201);
    free(huge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frameworks_are_read_by_name),
        cmocka_unit_test(torch_is_told_by_addresses_and_by_the_interface),
        cmocka_unit_test(tensorflow_is_told_every_workers_own_port),
        cmocka_unit_test(mpi_and_horovod_are_told_how_to_launch),
        cmocka_unit_test(every_program_gets_the_plain_variables),
        cmocka_unit_test(what_the_user_has_said_about_interfaces_stays),
        cmocka_unit_test(without_a_folder_nothing_points_to_one),
        cmocka_unit_test(a_variable_that_no_program_can_be_given_is_an_error),
        cmocka_unit_test(the_host_file_counts_workers_at_one_address_as_slots),
        cmocka_unit_test(lists_of_texts_keep_to_their_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
