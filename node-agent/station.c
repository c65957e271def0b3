/* SPDX-License-Identifier: Apache-2.0 */
#include "station.h"

#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/log.h"
#include "privileges.h"

#include <stdio.h>
#include <string.h>
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
    return code == -ENOMEM || code == -EPERM ? MST_EXIT_FAILED : MST_EXIT_USAGE;
}

static int drop_root(const struct agent_config *config, struct mst_error *err)
{
    return config->keep_user ? 0 : privileges_drop(config->uid, config->gid, err);
}

int station_open_alone(struct station *station, const struct agent_config *config, struct mst_error *err)
{
    *station = (struct station){.events.fd = -1};
    int r = choose_slot(station, config, err);
    if (r == 0)
        r = drop_root(config, err);
    return r < 0 ? r : mst_event_sink_init(&station->events, STDOUT_FILENO, station->slot, err);
}

/* With --peers the agent is where one of the given addresses is. */
static int choose_by_peers(const struct agent_config *config, struct discovery_choice *ret_choice,
                           struct mst_error *err)
{
    struct discovery_interface list[DISCOVERY_INTERFACES_MAX];
    size_t count;
    int r = discovery_interfaces_list(list, DISCOVERY_INTERFACES_MAX, &count, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < count; i++) {
        for (size_t p = 0; p < config->peer_count; p++) {
            const struct config_address *peer = &config->peers[p];
            if (list[i].ipv4 != peer->ipv4 || (peer->port != 0 && peer->port != config->port))
                continue;
            const uint32_t mask = list[i].prefix > 0 ? UINT32_MAX << (32 - list[i].prefix) : 0;
            ret_choice->interface = list[i];
            ret_choice->subnet = (struct mst_cidr){list[i].ipv4 & mask, list[i].prefix};
            (void)snprintf(ret_choice->reason, sizeof ret_choice->reason,
                           "%s: its address is among the peers", list[i].name);
            return 0;
        }
    }
    return mst_error_set(err, -EINVAL,
                         "option '--peers': none of the %zu addresses with port %u is this machine's",
                         config->peer_count, (unsigned)config->port);
}

static int open_capture(struct station *station, struct mst_error *err)
{
    const int r = discovery_arp_open(&station->choice.interface, &station->arp, err);
    if (r != -EPERM)
        return r;
    mst_log_info("station", "no right to capture packets (CAP_NET_RAW): searching by TCP instead");
    station->arp = NULL;
    return 0;
}

static int read_key(struct station *station, const struct agent_config *config, struct mst_error *err)
{
    station->self.key_count = 1;
    if (config->insecure)
        return 0; /* an empty key */
    const int r = discovery_key_read(config->key_file, &station->self.keys[0], err);
    if (r == -EACCES)
        return mst_error_wrap(err, r, "shared key, read as uid %u (see options '--key-file' and '--user')",
                              (unsigned)geteuid());
    return r < 0 ? mst_error_wrap(err, r, "shared key (option '--key-file', or '--insecure' to run without)")
                 : 0;
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
    const int r = mst_random(self->incarnation, sizeof self->incarnation, err);
    return r < 0 ? r : discovery_identity_check(self, err);
}

int station_open(struct station *station, const struct agent_config *config, enum discovery_role role,
                 enum station_needs needs, struct mst_error *err)
{
    *station = (struct station){.events.fd = -1};
    raise_limit();
    int r = choose_slot(station, config, err);
    if (r == 0 && config->peer_count > 0)
        r = choose_by_peers(config, &station->choice, err);
    else if (r == 0)
        r = discovery_interface_find(config->has_subnet ? &config->subnet : NULL, &station->choice, err);
    if (r == 0 && needs == STATION_SWEEPS && config->peer_count == 0)
        r = open_capture(station, err);
    if (r == 0)
        r = drop_root(config, err);
    if (r == 0)
        r = read_key(station, config, err);
    if (r == 0)
        r = identify(station, config, role, err);
    if (r == 0)
        r = mst_event_sink_init(&station->events, STDOUT_FILENO, station->slot, err);
    if (r < 0) {
        discovery_arp_free(station->arp);
        mst_forget(&station->self, sizeof station->self);
    }
    return r;
}

void station_close(struct station *station)
{
    discovery_arp_free(station->arp);
    station->arp = NULL;
    mst_event_sink_release(&station->events);
    mst_forget(&station->self, sizeof station->self);
}
