/* SPDX-License-Identifier: Apache-2.0 */
/* Who somebody is: checks on names and keys, and the reasons' texts. */
#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/hello.h"

#include <string.h>

/* As stack, service and host names are: they become parts of file names, XML and log lines elsewhere. */
static bool name_is_fit(const char *name, size_t field_bytes)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const size_t count = strnlen(name, field_bytes);
    return count > 0 && count < field_bytes && name[0] != '.' && name[0] != '-' &&
           strspn(name, allowed) == count;
}

int discovery_identity_check(const struct discovery_identity *identity, struct mst_error *err)
{
    static const char rule[] = "is not a name of letters, digits, '.', '_' and '-', at most";
    if (!name_is_fit(identity->cluster, sizeof identity->cluster))
        return mst_error_set(err, -EINVAL, "cluster '%.*s' %s %zu characters", DISCOVERY_CLUSTER_BYTES,
                             identity->cluster, rule, sizeof identity->cluster - 1);
    if (!name_is_fit(identity->slot, sizeof identity->slot))
        return mst_error_set(err, -EINVAL, "slot '%.*s' %s %zu characters", DISCOVERY_SLOT_BYTES,
                             identity->slot, rule, sizeof identity->slot - 1);
    if (identity->role < DISCOVERY_ROLE_WORKER || identity->role > DISCOVERY_ROLE_PROBE)
        return mst_error_set(err, -EINVAL, "slot '%s': role %d is unknown", identity->slot,
                             (int)identity->role);
    /* Others will dial a worker at the address that it names. */
    if (identity->role == DISCOVERY_ROLE_WORKER && (identity->ipv4 == 0 || identity->port == 0))
        return mst_error_set(err, -EINVAL, "slot '%s': a worker without an address", identity->slot);
    return 0;
}

int discovery_key_read(const char *path, struct discovery_key *ret_key, struct mst_error *err)
{
    struct mst_buf content = MST_BUF_INIT(DISCOVERY_KEY_MAX_BYTES);
    int r = mst_file_read(path, &content, err);
    if (r == 0 && content.count < DISCOVERY_KEY_MIN_BYTES)
        r = mst_error_set(err, -EINVAL, "key file '%s': %zu bytes, where %d to %d are needed", path,
                          content.count, DISCOVERY_KEY_MIN_BYTES, DISCOVERY_KEY_MAX_BYTES);
    else if (r < 0)
        r = mst_error_wrap(err, r, "key file");
    if (r == 0) {
        *ret_key = (struct discovery_key){.count = content.count};
        memcpy(ret_key->bytes, content.bytes, content.count);
    }
    if (content.bytes)
        mst_forget(content.bytes, content.capacity);
    mst_buf_release(&content);
    return r;
}

int discovery_keys_read(struct discovery_self *self, const char *path, const char *old_path,
                        struct mst_error *err)
{
    int r = discovery_key_read(path, &self->keys[0], err);
    self->key_count = 1;
    if (r < 0 || !old_path)
        return r;
    r = discovery_key_read(old_path, &self->keys[1], err);
    if (r < 0)
        return mst_error_wrap(err, r, "old key");
    if (self->keys[0].count == self->keys[1].count &&
        memcmp(self->keys[0].bytes, self->keys[1].bytes, self->keys[0].count) == 0)
        discovery_key_forget(&self->keys[1]);
    else
        self->key_count = 2;
    return 0;
}

void discovery_key_forget(struct discovery_key *key)
{
    mst_forget(key, sizeof *key);
}

const char *discovery_state_text(uint8_t state)
{
    static const char *const texts[] = {
        [DISCOVERY_STATE_UNKNOWN] = "unknown",       [DISCOVERY_STATE_LOOKING] = "looking",
        [DISCOVERY_STATE_FORMING] = "forming",       [DISCOVERY_STATE_RUNNING] = "running",
        [DISCOVERY_STATE_CHANGING] = "changing",     [DISCOVERY_STATE_PAUSED] = "paused",
        [DISCOVERY_STATE_LEAVING] = "leaving",       [DISCOVERY_STATE_DONE] = "done",
        [DISCOVERY_STATE_COLLECTING] = "collecting",
    };
    return state < MST_ARRAY_COUNT(texts) ? texts[state] : "unknown";
}

const char *discovery_role_text(enum discovery_role role)
{
    static const char *const texts[] = {
        [DISCOVERY_ROLE_WORKER] = "worker",
        [DISCOVERY_ROLE_COLLECTOR] = "collector",
        [DISCOVERY_ROLE_LAUNCH] = "launch",
        [DISCOVERY_ROLE_PROBE] = "probe",
    };
    const bool known = (size_t)role < MST_ARRAY_COUNT(texts) && texts[role];
    return known ? texts[role] : "unknown";
}

const char *discovery_reason_text(enum discovery_reason reason)
{
    static const struct {
        enum discovery_reason reason;
        const char *text;
    } texts[] = {
        {DISCOVERY_REASON_NONE, "no fault"},
        {DISCOVERY_REASON_VERSION, "it speaks another version of the protocol"},
        {DISCOVERY_REASON_CLUSTER, "it belongs to another cluster"},
        {DISCOVERY_REASON_KEY, "its key is not ours"},
        {DISCOVERY_REASON_INSECURE, "one side has a key and the other runs with --insecure"},
        {DISCOVERY_REASON_SELF, "the connection leads back to ourselves"},
        {DISCOVERY_REASON_FULL, "it has too many unauthenticated connections at the moment"},
        {DISCOVERY_REASON_FORMAT, "a field of the message makes no sense"},
        {DISCOVERY_REASON_ROLE, "this role or purpose is not served there"},
        {DISCOVERY_REASON_JOB, "its job is another one"},
        {DISCOVERY_REASON_BUSY, "it is busy"},
        {DISCOVERY_REASON_FOREIGN, "it is no muster agent"},
        {DISCOVERY_REASON_CLOSED, "it closed the connection"},
        {DISCOVERY_REASON_TAMPERED, "a message was altered or repeated on its way"},
    };
    for (size_t i = 0; i < MST_ARRAY_COUNT(texts); i++)
        if (texts[i].reason == reason)
            return texts[i].text;
    return "it refused for a reason unknown here";
}

bool discovery_reason_may_pass(enum discovery_reason reason)
{
    return reason == DISCOVERY_REASON_FULL || reason == DISCOVERY_REASON_BUSY ||
           reason == DISCOVERY_REASON_CLOSED;
}
