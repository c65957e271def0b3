/* SPDX-License-Identifier: Apache-2.0 */
/* What a machine says of itself. */
#include "experiment/checks.h"
#include "experiment/launch.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/digest.h"
#include "muster/file.h"
#include "muster/json.h"
#include "muster/net.h"

#include <ctype.h>
#include <ftw.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <linux/if_alg.h>
#include <linux/netlink.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#define PROC_MAX_BYTES   ((size_t)16 << 20)
#define VERSION_WAIT_MS  10000
#define CONTAINER_DIGITS 64
#define WALK_FDS         16

static int read_proc(const char *path, struct mst_buf *text)
{
    mst_buf_clear(text);
    return mst_file_read(path, text, NULL);
}

static double mean_mhz(const char *cpuinfo)
{
    double sum = 0;
    unsigned count = 0;

    for (const char *at = cpuinfo; (at = strstr(at, "cpu MHz")); at++) {
        double mhz;
        if (sscanf(at, "cpu MHz : %lf", &mhz) == 1) {
            sum += mhz;
            count++;
        }
    }
    return count > 0 ? sum / count : -1;
}

/* All interfaces but lo. */
static void sum_traffic(const char *text, struct checks_reading *reading)
{
    for (const char *line = text; *line != '\0'; line += line[0] == '\n') {
        char name[32];
        uint64_t rx, tx;
        if (sscanf(line, " %31[^:]: %" SCNu64 " %*u %*u %*u %*u %*u %*u %*u %" SCNu64, name, &rx, &tx) == 3 &&
            strcmp(name, "lo") != 0) {
            reading->rx_bytes += rx;
            reading->tx_bytes += tx;
        }
        line += strcspn(line, "\n");
    }
}

void checks_read(struct checks_reading *ret_reading)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(PROC_MAX_BYTES);
    struct checks_reading reading = {.t = mst_wall_s(), .mhz = -1, .load1 = -1};

    if (read_proc("/proc/stat", &text) >= 0)
        (void)checks_parse_stat(mst_buf_text(&text), &reading.ticks); /* zeros where it says nothing */
    if (read_proc("/proc/loadavg", &text) < 0 || sscanf(mst_buf_text(&text), "%lf", &reading.load1) != 1)
        reading.load1 = -1;
    if (read_proc("/proc/cpuinfo", &text) >= 0)
        reading.mhz = mean_mhz(mst_buf_text(&text));
    if (read_proc("/proc/net/dev", &text) >= 0)
        sum_traffic(mst_buf_text(&text), &reading);
    *ret_reading = reading;
}

cJSON *checks_reading_json(const struct checks_reading *reading)
{
    cJSON *json = cJSON_CreateObject();

    if (cJSON_AddStringToObject(json, "host", "node") && cJSON_AddNumberToObject(json, "t", reading->t) &&
        cJSON_AddNumberToObject(json, "total", (double)reading->ticks.total) &&
        cJSON_AddNumberToObject(json, "busy", (double)reading->ticks.busy) &&
        cJSON_AddNumberToObject(json, "steal", (double)reading->ticks.steal) &&
        cJSON_AddNumberToObject(json, "mhz", reading->mhz) &&
        cJSON_AddNumberToObject(json, "load1", reading->load1) &&
        cJSON_AddNumberToObject(json, "rx_bytes", (double)reading->rx_bytes) &&
        cJSON_AddNumberToObject(json, "tx_bytes", (double)reading->tx_bytes))
        return json;
    cJSON_Delete(json);
    return NULL;
}

void checks_reading_parse(const cJSON *json, struct checks_reading *ret_reading)
{
    *ret_reading = (struct checks_reading){
        .t = mst_json_double_or(json, "t", 0),
        .ticks = {.total = mst_json_u64_or(json, "total", 0),
                  .busy = mst_json_u64_or(json, "busy", 0),
                  .steal = mst_json_u64_or(json, "steal", 0)},
        .mhz = mst_json_double_or(json, "mhz", -1),
        .load1 = mst_json_double_or(json, "load1", -1),
        .rx_bytes = mst_json_u64_or(json, "rx_bytes", 0),
        .tx_bytes = mst_json_u64_or(json, "tx_bytes", 0),
    };
}

/* ---- the agent ---- */

struct version {
    char *text;
    size_t bytes;
};

static int take_version(void *context, struct launch *launch, const char *line, size_t count,
                        struct mst_error *err)
{
    const struct version *version = context;

    (void)launch, (void)count, (void)err;
    if (version->text[0] == '\0')
        (void)snprintf(version->text, version->bytes, "%s", line);
    return 0;
}

static int ask_version(const char *agent, char *text, size_t bytes, struct mst_error *err)
{
    static const struct launch_handler handler = {.on_line = take_version};
    const char *const words[] = {agent, "--version", NULL};
    struct launches set = LAUNCHES_INIT(-1);
    struct version version = {text, bytes};
    const uint64_t deadline_ns = mst_now_ns() + VERSION_WAIT_MS * MST_NS_PER_MS;
    struct launch *launch;
    int r = launches_add(&set, words, agent, NULL, &handler, &version, &launch, err);

    while (r >= 0 && !launch_has_ended(launch))
        r = launches_round(&set, deadline_ns, err);
    if (r >= 0 && (launch_status(launch) != 0 || text[0] == '\0'))
        r = mst_error_set(err, -ENOENT, "'%s --version' ended with status %d: %s", agent,
                          launch_status(launch), launch_tail(launch));
    launches_release(&set);
    return r < 0 ? mst_error_wrap(err, r, "the agent") : 0;
}

/* As execvp(3) finds it. */
static void find_program(const char *name, char *path, size_t bytes)
{
    const char *folders = getenv("PATH");

    (void)snprintf(path, bytes, "%s", strchr(name, '/') ? name : "");
    while (path[0] == '\0' && folders && *folders != '\0') {
        const size_t count = strcspn(folders, ":");
        (void)snprintf(path, bytes, "%.*s/%s", (int)count, folders, name);
        if (access(path, X_OK) < 0)
            path[0] = '\0';
        folders += count + (folders[count] == ':');
    }
}

static void digest_agent(const char *agent, struct checks_look *look)
{
    uint8_t digest[MST_SHA256_BYTES];
    char path[1024];

    find_program(agent, path, sizeof path);
    if (path[0] != '\0' && mst_sha256_file(path, digest, NULL) >= 0)
        mst_hex(digest, sizeof digest, look->agent_digest);
}

/* ---- the machine ---- */

static uint32_t container_count; /* nftw(3) hands no context on; one thread asks, once */

static int count_container(const char *path, const struct stat *status, int type, struct FTW *at)
{
    const char *name = path + at->base;
    size_t digits = strlen(name);

    (void)status;
    if (type != FTW_D)
        return 0;
    /* docker's own, "docker-<id>.scope" under systemd */
    if (strncmp(name, "docker-", 7) == 0 && digits > 7 + CONTAINER_DIGITS)
        name += 7;
    for (digits = 0; digits < CONTAINER_DIGITS && isxdigit((unsigned char)name[digits]); digits++)
        ;
    container_count += digits == CONTAINER_DIGITS && (name[digits] == '\0' || name[digits] == '.');
    return 0;
}

static uint32_t count_containers(const struct limits_mounts *mounts)
{
    container_count = 0;
    if (mounts->folders[LIMITS_CPUACCT][0] != '\0')
        (void)nftw(mounts->folders[LIMITS_CPUACCT], count_container, WALK_FDS,
                   FTW_PHYS); /* what cannot be read counts not */
    return container_count;
}

/* What swarm asks of the kernel for `--opt encrypted`: IPsec's states, and AES-GCM in ESP. The cipher can be
 * asked for without a right through AF_ALG; a kernel without that has it listed, or has it not loaded and
 * says nothing. */
static void look_at_encryption(struct checks_look *look)
{
    const struct sockaddr_alg name = {
        .salg_family = AF_ALG, .salg_type = "aead", .salg_name = "rfc4106(gcm(aes))"};
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(PROC_MAX_BYTES);
    mst_cleanup(mst_closep) int fd = socket(AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    mst_cleanup(mst_closep) int xfrm = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_XFRM);
    const char *reason = "";

    if (xfrm < 0)
        reason = "its kernel has no IPsec (xfrm)";
    else if (fd >= 0 && bind(fd, (const struct sockaddr *)&name, sizeof name) < 0)
        reason = "its kernel has no AES-GCM for ESP (rfc4106(gcm(aes)))";
    else if (fd < 0 && access("/lib/modules", R_OK) < 0 &&
             (read_proc("/proc/crypto", &text) < 0 || !strstr(mst_buf_text(&text), "gcm(aes)")))
        reason = "its kernel has no AES-GCM for ESP in /proc/crypto, and no modules to load";
    (void)snprintf(look->encryption_reason, sizeof look->encryption_reason, "%s", reason);
}

static void find_address(const char *subnet, struct checks_look *look)
{
    struct ifaddrs *list = NULL;
    struct mst_cidr cidr;

    if (subnet[0] == '\0' || mst_parse_cidr(subnet, &cidr, NULL) < 0 || getifaddrs(&list) < 0)
        return;
    for (const struct ifaddrs *i = list; i && look->address[0] == '\0'; i = i->ifa_next) {
        struct sockaddr_in address;
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET)
            continue;
        memcpy(&address, i->ifa_addr, sizeof address);
        if (mst_cidr_contains(cidr, ntohl(address.sin_addr.s_addr)))
            (void)mst_ipv4_text(ntohl(address.sin_addr.s_addr), look->address);
    }
    freeifaddrs(list);
}

static void copy_value(const char *text, const char *key, char *value, size_t bytes)
{
    const char *at = strstr(text, key);

    value[0] = '\0';
    if (!at)
        return;
    at += strcspn(at, ":\n");
    at += strspn(at, ": \t");
    (void)snprintf(value, bytes, "%.*s", (int)strcspn(at, "\n"), at);
}

static void look_at_machine(struct checks_look *look)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(PROC_MAX_BYTES);
    struct utsname name;
    uint64_t kib;

    if (uname(&name) == 0) {
        (void)snprintf(look->hostname, sizeof look->hostname, "%s", name.nodename);
        (void)snprintf(look->kernel, sizeof look->kernel, "%s", name.release);
    }
    if (read_proc("/proc/sys/net/ipv4/tcp_congestion_control", &text) >= 0)
        (void)snprintf(look->congestion, sizeof look->congestion, "%.*s",
                       (int)strcspn(mst_buf_text(&text), "\n"), mst_buf_text(&text));
    if (read_proc("/proc/sys/kernel/random/boot_id", &text) >= 0)
        (void)snprintf(look->boot_id, sizeof look->boot_id, "%.36s", mst_buf_text(&text));
    if (read_proc("/proc/cpuinfo", &text) >= 0)
        copy_value(mst_buf_text(&text), "model name", look->cpu_model, sizeof look->cpu_model);
    if (read_proc("/proc/meminfo", &text) >= 0) {
        const char *total = strstr(mst_buf_text(&text), "MemTotal:"),
                   *free_now = strstr(mst_buf_text(&text), "MemAvailable:");
        if (total && sscanf(total, "MemTotal: %" SCNu64, &kib) == 1)
            look->memory_bytes = kib * 1024;
        if (free_now && sscanf(free_now, "MemAvailable: %" SCNu64, &kib) == 1)
            look->memory_available_bytes = kib * 1024;
    }
    look->cpus = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
}

int checks_look(const char *agent, const struct limits *limits, const char *subnet, unsigned sample_ms,
                struct checks_look *ret_look, struct mst_error *err)
{
    struct checks_look look = {0};
    struct limits_mounts mounts = {0};
    struct mst_error why = MST_ERROR_INIT;
    struct checks_reading before, after;
    int r = 0;

    (void)snprintf(look.muster, sizeof look.muster, "%s", MUSTER_VERSION);
    look_at_machine(&look);
    find_address(subnet, &look);
    look_at_encryption(&look);
    if (limits_look(limits, &mounts, &why) < 0)
        (void)snprintf(look.limits_reason, sizeof look.limits_reason, "%s", why.text);
    look.cgroup_version = mounts.version;
    look.containers = count_containers(&mounts);
    if (agent[0] != '\0') {
        r = ask_version(agent, look.agent, sizeof look.agent, err);
        digest_agent(agent, &look);
    }
    checks_read(&before);
    (void)poll(NULL, 0, (int)sample_ms); /* the length of a measurement, no wait for anything */
    checks_read(&after);
    look.load1 = after.load1;
    look.mhz = after.mhz;
    if (after.ticks.total > before.ticks.total) {
        const double total = (double)(after.ticks.total - before.ticks.total);
        look.busy_percent = 100 * (double)(after.ticks.busy - before.ticks.busy) / total;
        look.steal_percent = 100 * (double)(after.ticks.steal - before.ticks.steal) / total;
    }
    if (r >= 0)
        *ret_look = look;
    return r;
}

/* ---- as JSON ---- */

#define TEXTS(look)                                                                                          \
    {                                                                                                        \
        {"hostname", (look)->hostname, sizeof(look)->hostname},                                              \
            {"muster", (look)->muster, sizeof(look)->muster}, {"agent", (look)->agent, sizeof(look)->agent}, \
            {"agent_digest", (look)->agent_digest, sizeof(look)->agent_digest},                              \
            {"boot_id", (look)->boot_id, sizeof(look)->boot_id},                                             \
            {"kernel", (look)->kernel, sizeof(look)->kernel},                                                \
            {"cpu_model", (look)->cpu_model, sizeof(look)->cpu_model},                                       \
            {"congestion", (look)->congestion, sizeof(look)->congestion},                                    \
            {"limits_reason", (look)->limits_reason, sizeof(look)->limits_reason},                           \
            {"encryption_reason", (look)->encryption_reason, sizeof(look)->encryption_reason},               \
            {"address", (look)->address, sizeof(look)->address},                                             \
    }

cJSON *checks_look_json(const struct checks_look *look)
{
    const struct {
        const char *key, *text;
        size_t bytes;
    } texts[] = TEXTS(look);
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"cpus", look->cpus},
                   {"cgroup_version", look->cgroup_version},
                   {"containers", look->containers},
                   {"memory_bytes", (double)look->memory_bytes},
                   {"memory_available_bytes", (double)look->memory_available_bytes},
                   {"load1", look->load1},
                   {"busy_percent", look->busy_percent},
                   {"steal_percent", look->steal_percent},
                   {"mhz", look->mhz}};
    cJSON *json = cJSON_CreateObject();
    bool ok = cJSON_AddStringToObject(json, "host", "look") != NULL;

    for (size_t i = 0; i < MST_ARRAY_COUNT(texts) && ok; i++)
        ok = cJSON_AddStringToObject(json, texts[i].key, texts[i].text) != NULL;
    for (size_t i = 0; i < MST_ARRAY_COUNT(numbers) && ok; i++)
        ok = cJSON_AddNumberToObject(json, numbers[i].key, numbers[i].value) != NULL;
    if (ok)
        return json;
    cJSON_Delete(json);
    return NULL;
}

void checks_look_parse(const cJSON *json, struct checks_look *ret_look)
{
    struct checks_look look = {
        .cpus = (uint32_t)mst_json_u64_or(json, "cpus", 0),
        .cgroup_version = (uint32_t)mst_json_u64_or(json, "cgroup_version", 0),
        .containers = (uint32_t)mst_json_u64_or(json, "containers", 0),
        .memory_bytes = mst_json_u64_or(json, "memory_bytes", 0),
        .memory_available_bytes = mst_json_u64_or(json, "memory_available_bytes", 0),
        .load1 = mst_json_double_or(json, "load1", -1),
        .busy_percent = mst_json_double_or(json, "busy_percent", 0),
        .steal_percent = mst_json_double_or(json, "steal_percent", 0),
        .mhz = mst_json_double_or(json, "mhz", -1),
    };
    const struct {
        const char *key;
        char *text;
        size_t bytes;
    } texts[] = TEXTS(&look);

    for (size_t i = 0; i < MST_ARRAY_COUNT(texts); i++)
        (void)snprintf(texts[i].text, texts[i].bytes, "%s", mst_json_string_or(json, texts[i].key, ""));
    *ret_look = look;
}
