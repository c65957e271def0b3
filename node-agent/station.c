/* SPDX-License-Identifier: Apache-2.0 */
#include "station.h"

#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/log.h"
#include "privileges.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SLOT_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

static int choose_slot(struct station *station, const struct agent_config *config, struct mst_error *err)
{
    char host[DISCOVERY_SLOT_BYTES] = "";
    if (!config->slot && gethostname(host, sizeof host - 1) < 0)
        return mst_error_errno(err, -errno, "ask for the host's name");
    const char *slot = config->slot ? config->slot : host;
    /* It becomes part of file names, CSV cells and JSON texts, and goes over the wire: what discovery allows.
     */
    const size_t length = strlen(slot);
    if (length == 0 || length >= sizeof station->slot || strspn(slot, SLOT_CHARACTERS) != length ||
        *slot == '.' || *slot == '-')
        return mst_error_set(
            err, -EINVAL,
            "slot '%.64s': expected up to %zu letters, digits, '.', '_' and '-', and no '.' or '-' "
            "in front",
            slot, sizeof station->slot - 1);
    memcpy(station->slot, slot, length + 1);
    return 0;
}

/* Two connections a worker and more: a view of a thousand would not fit the usual soft limit of 1024. */
static void raise_limit(void)
{
    if (mst_raise_descriptor_limit() < 0)
        mst_log_warn("station", "the limit on open files cannot be raised");
}

int station_exit_status(int code)
{
    switch (code) {
    case -ENOMEM:
    case -EPERM:
        return MST_EXIT_FAILED;
    case -ETIMEDOUT:
        return MST_EXIT_TIMEOUT;
    case -EINTR:
        return MST_EXIT_INTERRUPTED;
    case -ECANCELED:
        return MST_EXIT_TERMINATED;
    default:
        return MST_EXIT_USAGE;
    }
}

static int drop_root(const struct agent_config *config, struct mst_error *err)
{
    return config->keep_user ? 0 : privileges_drop(config->uid, config->gid, err);
}

static int open_events(struct station *station, struct mst_error *err)
{
    const int r = mst_event_sink_init(&station->events, STDOUT_FILENO, station->slot, err);
    station->events.patience_ms = STATION_PATIENCE_MS;
    return r;
}

int station_open_alone(struct station *station, const struct agent_config *config, struct mst_error *err)
{
    *station = (struct station){.events.fd = -1};
    if (config->key_given || config->from_xml || config->has_subnet)
        mst_log_warn("station", "alone, without a network: %s is of no use",
                     config->key_given    ? "a key (option '--key-file')"
                     : config->has_subnet ? "a subnet (option '--subnet')"
                                          : "a file of hosts (option '--from-xml')");
    int r = choose_slot(station, config, err);
    if (r == 0)
        r = drop_root(config, err);
    return r < 0 ? r : open_events(station, err);
}

/* With --peers the agent is where one of the given addresses is. */
static int choose_by_peers(const struct agent_config *config, struct discovery_choice *ret_choice,
                           struct mst_error *err)
{
    mst_cleanup(mst_freep) struct discovery_interface *list = calloc(DISCOVERY_INTERFACES_MAX, sizeof *list);
    size_t count = 0;
    if (!list)
        return mst_error_set(err, -ENOMEM, "list this machine's interfaces: no memory");
    int r = discovery_interfaces_list(list, DISCOVERY_INTERFACES_MAX, &count, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < count; i++) {
        for (size_t p = 0; p < config->peer_count; p++) {
            const struct config_address *peer = &config->peers[p];
            if (list[i].ipv4 != peer->ipv4 || (peer->port != 0 && peer->port != config->port))
                continue;
            ret_choice->interface = list[i];
            ret_choice->subnet = discovery_own_subnet(&list[i]);
            (void)snprintf(ret_choice->reason, sizeof ret_choice->reason,
                           "%s: its address is among the peers", list[i].name);
            return 0;
        }
    }
    return mst_error_set(err, -EINVAL,
                         "option '--peers': none of the %zu addresses with port %u is this machine's",
                         config->peer_count, (unsigned)config->port);
}

static int list_networks(struct station *station, const struct agent_config *config, struct mst_error *err)
{
    struct discovery_choice choices[DISCOVERY_CHOICES_MAX];
    size_t count = 1;
    const int r =
        config->peer_count > 0
            ? choose_by_peers(config, &choices[0], err)
            : discovery_interfaces_find(config->has_subnet ? &config->subnet : NULL, &config->interface,
                                        choices, DISCOVERY_CHOICES_MAX, &count, err);
    if (r < 0)
        return r;
    station->networks = calloc(count, sizeof *station->networks);
    if (!station->networks)
        return mst_error_set(err, -ENOMEM, "list this machine's networks: no memory");
    for (size_t n = 0; n < count; n++)
        station->networks[n].choice = choices[n];
    station->network_count = count;
    return 0;
}

/* As root, where it is; later nobody can. */
static int open_captures(struct station *station, struct mst_error *err)
{
    for (size_t n = 0; n < station->network_count; n++) {
        struct station_network *network = &station->networks[n];
        int r = discovery_arp_open(&network->choice.interface, &network->arp, err);
        if (r == -EPERM && n == 0)
            mst_log_info("station", "no right to capture packets (CAP_NET_RAW): searching by TCP instead");
        /* On a link without ARP, workers are found by TCP as well; and by muster-launch always. */
        if (r < 0 && r != -EPERM && r != -EINVAL && r != -ENOTSUP)
            return r;
        if (r < 0 && discovery_choice_narrow(&network->choice, DISCOVERY_TCP_MIN_PREFIX))
            mst_log_warn("station",
                         "%s: a larger subnet is not searched by TCP; others are found by hints (option "
                         "'--dns'), or when they search",
                         network->choice.reason);
    }
    return 0;
}

/* Swarm's secrets are 0444 unless a stack says otherwise, in a tmpfs of the container's own. */
#define SECRETS_FOLDER "/run/secrets/"

/* Whoever has the key is a worker. That the file could be read is known already. */
static void judge_key_file(const char *path)
{
    struct stat status;
    if (!path || strncmp(path, SECRETS_FOLDER, strlen(SECRETS_FOLDER)) == 0 || stat(path, &status) < 0)
        return;
    const char *what = status.st_mode & S_IWOTH ? "replace" : status.st_mode & S_IROTH ? "read" : NULL;
    if (what)
        mst_log_warn("station",
                     "key file '%s' has mode %04o: any user of this machine can %s the key (chmod 600, and "
                     "chown to whom '--user' says)",
                     path, (unsigned)status.st_mode & 07777, what);
}

static int read_keys(struct station *station, const struct agent_config *config, struct mst_error *err)
{
    station->self.key_count = 1;
    if (config->insecure)
        return 0; /* an empty key */
    const int r = discovery_keys_read(&station->self, config->key_file, config->old_key_file, err);
    if (r == 0) {
        judge_key_file(config->key_file);
        judge_key_file(config->old_key_file);
    }
    if (r == -EACCES)
        return mst_error_wrap(err, r, "shared key, read as uid %u (see options '--key-file' and '--user')",
                              (unsigned)geteuid());
    return r < 0 ? mst_error_wrap(err, r, "shared key (option '--key-file', or '--insecure' to run without)")
                 : 0;
}

/* Addresses from a file of nmap's, whatever it says of them. */
static int read_hints(struct station *station, const struct agent_config *config, struct mst_error *err)
{
    size_t count = 0;
    if (!config->from_xml)
        return 0;
    const int r = discovery_ips_xml_read(config->from_xml, config->port, &station->hinted, &count, err);
    if (r < 0)
        return mst_error_wrap(err, r, "hosts to begin with");
    if (count > STATION_HINTS_MAX)
        count = STATION_HINTS_MAX;
    station->hints = calloc(count + 1, sizeof *station->hints);
    if (!station->hints)
        return mst_error_set(err, -ENOMEM, "hosts to begin with: no memory");
    for (size_t h = 0; h < count; h++)
        station->hints[h] = station->hinted[h].ipv4;
    station->hint_count = count;
    return 0;
}

static int identify(struct station *station, const struct agent_config *config, enum discovery_role role,
                    struct mst_error *err)
{
    struct discovery_identity *self = &station->self.identity;
    if (strlen(config->cluster) >= sizeof self->cluster)
        return mst_error_set(err, -EINVAL, "option '--cluster': a name of more than %zu bytes",
                             sizeof self->cluster - 1);
    memcpy(self->cluster, config->cluster, strlen(config->cluster) + 1);
    memcpy(self->slot, station->slot, sizeof self->slot);
    self->role = role;
    self->ipv4 = station->choice.interface.ipv4;
    self->port = config->port;
    self->features = DISCOVERY_FEATURE_TELLS;
    const int r = mst_random(self->incarnation, sizeof self->incarnation, err);
    return r < 0 ? r : discovery_identity_check(self, err);
}

static void release(struct station *station)
{
    for (size_t n = 0; n < station->network_count; n++)
        discovery_arp_free(station->networks[n].arp);
    free(station->networks);
    free(station->hints);
    free(station->hinted);
    mst_forget(&station->self, sizeof station->self);
    *station = (struct station){.events = station->events};
}

static int open_all(struct station *station, const struct agent_config *config, enum discovery_role role,
                    enum station_needs needs, struct mst_error *err)
{
    int r = choose_slot(station, config, err);
    if (r == 0)
        r = list_networks(station, config, err);
    if (r == 0 && needs == STATION_SWEEPS && config->peer_count == 0)
        r = open_captures(station, err);
    if (r == 0)
        r = drop_root(config, err);
    if (r == 0)
        r = read_keys(station, config, err);
    if (r == 0)
        r = read_hints(station, config, err);
    if (r < 0)
        return r;
    station->dns = config->dns;
    station->workers = config->workers;
    station->choice = station->networks[0].choice;
    station->arp = station->networks[0].arp;
    return identify(station, config, role, err);
}

int station_open(struct station *station, const struct agent_config *config, enum discovery_role role,
                 enum station_needs needs, struct mst_error *err)
{
    *station = (struct station){.events.fd = -1};
    raise_limit();
    int r = open_all(station, config, role, needs, err);
    if (r == 0)
        r = open_events(station, err);
    if (r < 0)
        release(station);
    return r;
}

void station_close(struct station *station)
{
    release(station);
    mst_event_sink_release(&station->events);
}
