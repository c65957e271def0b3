/* SPDX-License-Identifier: Apache-2.0 */
#include "membership_private.h"

#include <stdlib.h>
#include <string.h>

/* Copy one ballot's places to `*next`, and move that on. */
static struct membership_ballot copy_ballot(const struct membership_ballot *ballot,
                                            struct membership_place **next)
{
    struct membership_ballot copy = *ballot;
    if (ballot->count > 0)
        memcpy(*next, ballot->places, ballot->count * sizeof **next);
    copy.places = *next;
    *next += ballot->count;
    return copy;
}

/* `vow` may point into what is kept already. */
int membership_keep_vow(struct kept_vow *kept, const struct membership_vow *vow)
{
    size_t count = vow->held.count;
    for (size_t a = 0; a < vow->count; a++)
        count += vow->attempts[a].count;
    struct membership_place *places = calloc(count > 0 ? count : 1, sizeof *places), *next = places;
    if (!places)
        return -ENOMEM;
    struct membership_vow copy = {.count = vow->count};
    copy.held = copy_ballot(&vow->held, &next);
    for (size_t a = 0; a < vow->count; a++)
        copy.attempts[a] = copy_ballot(&vow->attempts[a], &next);
    free(kept->places);
    kept->places = places;
    kept->vow = copy;
    return 0;
}

/* The highest number in it; 0: nothing was ever signed. */
uint64_t membership_last_signed(const struct membership_vow *vow)
{
    uint64_t view = vow->held.view;
    for (size_t a = 0; a < vow->count; a++)
        if (vow->attempts[a].view > view)
            view = vow->attempts[a].view;
    return view;
}

bool membership_vow_fits(const struct membership_vow *vow)
{
    size_t places = vow->held.count;
    if (vow->count > MEMBERSHIP_MAX_ATTEMPTS || vow->held.count > MEMBERSHIP_MAX_PLACES)
        return false;
    for (size_t a = 0; a < vow->count; a++) {
        if (vow->attempts[a].count > MEMBERSHIP_MAX_PLACES)
            return false;
        places += vow->attempts[a].count;
    }
    return places <= MEMBERSHIP_MAX_VOW && membership_last_signed(vow) <= MEMBERSHIP_VIEW_MAX;
}
