/* SPDX-License-Identifier: Apache-2.0 */
#include "hello_fixture.h"
#include "muster/cleanup.h"
#include "muster/discovery.h"

/* name, address, prefix, MTU, holds the default route; up, and Ethernet unless it is lo. */
static struct discovery_interface interface_of(unsigned index, const char *name, const char *cidr,
                                               uint32_t mtu, bool holds_default_route)
{
    struct discovery_interface interface = {.index = index,
                                            .mtu = mtu,
                                            .up = true,
                                            .loopback = strcmp(name, "lo") == 0,
                                            .ethernet = strcmp(name, "lo") != 0,
                                            .holds_default_route = holds_default_route};
    char address[32];
    struct mst_cidr parsed;
    (void)snprintf(interface.name, sizeof interface.name, "%s", name);
    (void)snprintf(address, sizeof address, "%.*s", (int)strcspn(cidr, "/"), cidr);
    assert_int_equal(mst_parse_ipv4(address, &interface.ipv4, NULL), 0);
    assert_int_equal(mst_parse_cidr(cidr, &parsed, NULL), 0);
    interface.prefix = parsed.prefix;
    return interface;
}

struct attached {
    const char *name, *cidr;
    uint32_t mtu;
    bool holds_default_route;
};

#define MAX_ATTACHED 6
static const struct {
    const char *what;
    struct attached attached[MAX_ATTACHED];
    const char *subnet; /* NULL: not given */
    const char *filter; /* NULL: not given */
    int code;
    const char *chosen; /* names of the choices in order */
    const char *text;   /* the first choice's reason, or the error */
} cases[] = {
    {"a task: overlay and docker_gwbridge",
     {{"lo", "127.0.0.1/8", 65536, false},
      {"eth0", "10.10.0.5/24", 1450, false},
      {"eth1", "172.18.0.3/16", 1500, true}},
     NULL,
     NULL,
     0,
     "eth0",
     "eth0 10.10.0.5/24: MTU 1450 as overlays have, private, not the default route's"},
    {"a task with published ports: ingress comes last",
     {{"eth0", "10.0.0.7/24", 1450, false},
      {"eth2", "192.168.0.4/24", 1450, false},
      {"eth1", "172.18.0.3/16", 1500, true}},
     NULL,
     NULL,
     0,
     "eth2 eth0",
     "eth2 192.168.0.4/24: MTU 1450 as overlays have, private, not the default route's"},
    {"ingress of older engines",
     {{"eth0", "10.255.0.7/16", 1450, false}, {"eth2", "10.0.1.4/24", 1400, false}},
     NULL,
     NULL,
     0,
     "eth2 eth0",
     NULL},
    {"a service's virtual address beside the task's own",
     {{"eth0", "10.10.0.2/32", 1450, false}, {"eth0", "10.10.0.5/24", 1450, false}},
     NULL,
     NULL,
     0,
     "eth0",
     "eth0 10.10.0.5/24: MTU 1450 as overlays have, private, not the default route's"},
    {"two overlays: in the order of their addresses, whatever the kernel's is",
     {{"eth1", "10.20.0.5/24", 1450, false}, {"eth0", "10.10.0.5/24", 1450, false}},
     NULL,
     NULL,
     0,
     "eth0 eth1",
     NULL},
    {"two overlays, and one of them is not wanted",
     {{"eth1", "10.20.0.5/24", 1450, false}, {"eth0", "10.10.0.5/24", 1450, false}},
     NULL,
     "!eth0",
     0,
     "eth1",
     NULL},
    {"two overlays, and the one with this subnet is wanted",
     {{"eth1", "10.20.0.5/24", 1450, false}, {"eth0", "10.10.0.5/24", 1450, false}},
     NULL,
     "10.20.0.0/16",
     0,
     "eth1",
     "eth1 10.20.0.5/24: --interface asks for it, MTU 1450 as overlays have, private, not the default "
     "route's"},
    {"who names the default route's interface answers for it",
     {{"ens3", "192.168.1.20/24", 1500, true}, {"docker0", "172.17.0.1/16", 1500, false}},
     NULL,
     "ens3",
     0,
     "ens3",
     "ens3 192.168.1.20/24: --interface asks for it, private, the default route's"},
    {"a bridge of the host, too",
     {{"ens3", "192.168.1.20/24", 1500, true}, {"br-0123", "172.19.0.1/16", 1500, false}},
     NULL,
     "br-*",
     0,
     "br-0123",
     NULL},
    {"all but some leaves the default route's out as before",
     {{"ens3", "192.168.1.20/24", 1500, true}, {"ens4", "192.168.2.20/24", 1500, false}},
     NULL,
     "!ens4",
     -EINVAL,
     NULL,
     "--interface leaves none on which workers could be; attached are: ens3 192.168.1.0/24, ens4 "
     "192.168.2.0/24"},
    {"a name that is not there",
     {{"eth0", "10.10.0.5/24", 1450, false}},
     NULL,
     "eth7",
     -EINVAL,
     NULL,
     "--interface leaves none on which workers could be; attached are: eth0 10.10.0.0/24"},
    {"a name whose subnet is too large",
     {{"eth0", "10.0.0.5/8", 1450, false}},
     NULL,
     "eth0",
     -EINVAL,
     NULL,
     "eth0 10.0.0.0/8: from /16 to /30 can be swept; name a part of it with --subnet"},
    {"a part of it that is named as well",
     {{"eth0", "10.1.0.5/8", 1450, false}},
     "10.1.0.0/16",
     "eth0",
     0,
     "eth0",
     NULL},
    {"two interfaces on one subnet, and the second is wanted",
     {{"eth0", "10.10.0.5/24", 1450, false}, {"eth1", "10.10.0.6/24", 1450, false}},
     "10.10.0.0/24",
     "eth1",
     0,
     "eth1",
     NULL},
    {"loopback is not swept, whoever names it",
     {{"lo", "127.0.0.1/24", 65536, false}},
     NULL,
     "lo",
     -EINVAL,
     NULL,
     "--interface leaves none on which workers could be; attached are: nothing"},
    {"a VIP's /32 is never the one, whoever names it",
     {{"eth0", "10.10.0.2/32", 1450, false}, {"eth0", "10.10.0.5/24", 1450, false}},
     NULL,
     "eth0",
     0,
     "eth0",
     NULL},
    {"overlay MTU before another private network, that before a public one",
     {{"eth0", "203.0.113.5/24", 1500, false},
      {"eth1", "192.168.7.5/24", 1500, false},
      {"eth2", "10.1.2.3/24", 1450, false}},
     NULL,
     NULL,
     0,
     "eth2 eth1 eth0",
     NULL},
    {"a bare machine",
     {{"lo", "127.0.0.1/8", 65536, false}, {"ens3", "192.168.1.20/24", 1500, true}},
     NULL,
     NULL,
     -EINVAL,
     NULL,
     "--subnet is required: only ens3 192.168.1.0/24 could be swept, and it holds the default route (say "
     "--subnet 192.168.1.0/24 if workers are there)"},
    {"a bare machine with an engine's bridges",
     {{"ens3", "192.168.1.20/24", 1500, true},
      {"docker0", "172.17.0.1/16", 1500, false},
      {"docker_gwbridge", "172.18.0.1/16", 1500, false},
      {"br-0123456789ab", "172.19.0.1/16", 1500, false}},
     NULL,
     NULL,
     -EINVAL,
     NULL,
     "--subnet is required: only ens3 192.168.1.0/24 could be swept, and it holds the default route (say "
     "--subnet 192.168.1.0/24 if workers are there)"},
    {"a bare machine that was told",
     {{"ens3", "192.168.1.20/24", 1500, true}},
     "192.168.1.0/24",
     NULL,
     0,
     "ens3",
     "ens3 192.168.1.20/24: --subnet asks for it, private, the default route's"},
    {"a part of the attached subnet",
     {{"eth0", "10.10.0.5/16", 1450, false}},
     "10.10.0.0/28",
     NULL,
     0,
     "eth0",
     "eth0 10.10.0.5/16: --subnet asks for it, MTU 1450 as overlays have, private, not the default route's"},
    {"a part in which we are not",
     {{"eth0", "10.10.0.5/16", 1450, false}},
     "10.10.1.0/24",
     NULL,
     -EINVAL,
     NULL,
     "subnet 10.10.1.0/24 is not attached here; attached are: eth0 10.10.0.0/16"},
    {"more than is attached",
     {{"eth0", "10.10.0.5/24", 1450, false}},
     "10.10.0.0/16",
     NULL,
     -EINVAL,
     NULL,
     "subnet 10.10.0.0/16 reaches beyond what is attached here: eth0 10.10.0.0/24"},
    {"somebody else's subnet",
     {{"lo", "127.0.0.1/8", 65536, false},
      {"eth0", "10.10.0.5/24", 1450, false},
      {"eth1", "172.18.0.3/16", 1500, true}},
     "10.9.0.0/24",
     NULL,
     -EINVAL,
     NULL,
     "subnet 10.9.0.0/24 is not attached here; attached are: eth0 10.10.0.0/24, eth1 172.18.0.0/16"},
    {"only loopback",
     {{"lo", "127.0.0.1/8", 65536, false}},
     NULL,
     NULL,
     -EINVAL,
     NULL,
     "no interface on which workers could be: attached are: nothing"},
    {"loopback is not swept when asked for either",
     {{"lo", "127.0.0.1/24", 65536, false}},
     "127.0.0.0/24",
     NULL,
     -EINVAL,
     NULL,
     "subnet 127.0.0.0/24 is not attached here; attached are: nothing"},
    {"a point-to-point link and a lone address",
     {{"eth0", "10.10.0.5/31", 1450, false}, {"eth1", "10.11.0.5/32", 1450, false}},
     NULL,
     NULL,
     -EINVAL,
     NULL,
     "no interface on which workers could be: attached are: eth0 10.10.0.4/31, eth1 10.11.0.5/32"},
    {"a subnet beyond the limit is no candidate",
     {{"eth0", "10.10.0.5/8", 1450, false}},
     NULL,
     NULL,
     -EINVAL,
     NULL,
     NULL},
    {"/31 asked for",
     {{"eth0", "10.10.0.5/24", 1450, false}},
     "10.10.0.4/31",
     NULL,
     -EINVAL,
     NULL,
     "subnet 10.10.0.4/31: from /16 to /30 can be swept"},
    {"/15 asked for", {{"eth0", "10.10.0.5/8", 1450, false}}, "10.10.0.0/15", NULL, -EINVAL, NULL, NULL},
    {"two interfaces on one subnet: both, the lower index first",
     {{"eth0", "10.10.0.5/24", 1450, false}, {"eth1", "10.10.0.6/24", 1450, false}},
     "10.10.0.0/24",
     NULL,
     0,
     "eth0 eth1",
     NULL},
};

static void each_machine_gets_the_right_interface_or_the_right_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct discovery_interface list[MAX_ATTACHED];
        struct discovery_choice choices[MAX_ATTACHED];
        struct mst_cidr subnet;
        struct discovery_filter filter;
        struct mst_error err = MST_ERROR_INIT;
        size_t count = 0, found = 99;
        char names[128] = "";
        for (const struct attached *a = cases[i].attached; count < MAX_ATTACHED && a->name; a++, count++)
            list[count] = interface_of((unsigned)count + 1, a->name, a->cidr, a->mtu, a->holds_default_route);
        if (cases[i].subnet)
            assert_int_equal(mst_parse_cidr(cases[i].subnet, &subnet, NULL), 0);
        if (cases[i].filter)
            assert_int_equal(discovery_filter_parse(cases[i].filter, &filter, NULL), 0);
        const int r = discovery_interfaces_choose(list, count, cases[i].subnet ? &subnet : NULL,
                                                  cases[i].filter ? &filter : NULL, choices, MAX_ATTACHED,
                                                  &found, &err);
        if (r != cases[i].code)
            fail_msg("%s: %d instead of %d: %s", cases[i].what, r, cases[i].code, err.text);
        if (r < 0) {
            assert_int_equal(found, 99);
            if (cases[i].text)
                assert_string_equal(err.text, cases[i].text);
            continue;
        }
        for (size_t c = 0; c < found; c++) {
            const size_t used = strlen(names);
            (void)snprintf(names + used, sizeof names - used, "%s%s", c ? " " : "",
                           choices[c].interface.name);
        }
        assert_string_equal(names, cases[i].chosen);
        if (cases[i].text)
            assert_string_equal(choices[0].reason, cases[i].text);
    }
}

static void the_caller_may_want_only_the_best(void **state)
{
    (void)state;
    const struct discovery_interface list[] = {interface_of(1, "eth0", "10.0.0.7/24", 1450, false),
                                               interface_of(2, "eth1", "10.10.0.7/24", 1450, false)};
    struct discovery_choice choice;
    size_t found;
    assert_int_equal(discovery_interfaces_choose(list, 2, NULL, NULL, &choice, 1, &found, NULL), 0);
    assert_int_equal(found, 1);
    assert_string_equal(choice.interface.name, "eth1");
    assert_int_equal(choice.subnet.network, 0x0a0a0000);
    assert_int_equal(choice.subnet.prefix, 24);
}

static void an_interface_that_is_down_is_not_used(void **state)
{
    (void)state;
    struct discovery_interface down = interface_of(1, "eth0", "10.10.0.7/24", 1450, false);
    const struct mst_cidr subnet = {0x0a0a0000, 24};
    struct discovery_choice choice;
    size_t found;
    down.up = false;
    assert_int_equal(discovery_interfaces_choose(&down, 1, NULL, NULL, &choice, 1, &found, NULL), -EINVAL);
    assert_int_equal(discovery_interfaces_choose(&down, 1, &subnet, NULL, &choice, 1, &found, NULL), -EINVAL);
    assert_int_equal(discovery_interfaces_choose(NULL, 0, NULL, NULL, &choice, 1, &found, NULL), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_machine_gets_the_right_interface_or_the_right_words),
        cmocka_unit_test(the_caller_may_want_only_the_best),
        cmocka_unit_test(an_interface_that_is_down_is_not_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
