/* SPDX-License-Identifier: Apache-2.0 */
/* Faults that the model test puts into the state machine of membership.h, to see that its rules find them. In
 * the programs FAULT() is the constant false, and no code of a fault is there. */
#ifndef AGENT_MEMBERSHIP_FAULT_H
#define AGENT_MEMBERSHIP_FAULT_H

enum membership_fault {
    MEMBERSHIP_FAULT_NONE,
    MEMBERSHIP_FAULT_QUORUM_OFF_BY_ONE, /* one slot less than a quorum is enough */
    MEMBERSHIP_FAULT_QUORUM_ANY_HALF,   /* half of the slots are enough, whether the first is among them */
    MEMBERSHIP_FAULT_LOCK_FORGOTTEN,    /* signs a second list under a number */
    MEMBERSHIP_FAULT_VOW_NOT_SAVED,     /* signs without save_vow() */
    MEMBERSHIP_FAULT_FENCE_MISSING,     /* a proposal or signature of an older number counts for this one */
    MEMBERSHIP_FAULT_SIGNATURE_TOO_FEW, /* holds a view while one signature is missing */
    MEMBERSHIP_FAULT_CLIQUE_DROPPED,    /* names all that it reaches, whether they reach each other */
    MEMBERSHIP_FAULT_LEAVER_COUNTED,    /* one that leaves is named as a member */
    MEMBERSHIP_FAULT_LINEAGE_DROPPED,   /* takes views of another lineage for its own's */
    MEMBERSHIP_FAULT_COUNT
};

#ifdef MEMBERSHIP_FAULTS
extern enum membership_fault membership_fault; /* the test's own; MEMBERSHIP_FAULT_NONE: a correct machine */
#define FAULT(name) (membership_fault == MEMBERSHIP_FAULT_##name)
#else
#define FAULT(name) 0
#endif

#endif
