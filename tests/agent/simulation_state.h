/* SPDX-License-Identifier: Apache-2.0 */
/* What the simulation's files share: simulation.c has the clock and the end, simulation_network.c what lies
 * between machines, simulation_machine.c the machines and their disks, simulation_job.c the training,
 * simulation_rules.c what must hold, simulation_scenarios.c what is done to all of them. */
#ifndef TESTS_AGENT_SIMULATION_STATE_H
#define TESTS_AGENT_SIMULATION_STATE_H

#include "membership.h"
#include "simulation.h"
#include "test.h"

#define MS               1000000ULL
#define S                (1000 * MS)
#define MACHINES         SIMULATION_MACHINES_MAX
#define CUTS_MAX         32
#define CRASHES_MAX      8
#define SILENCE_NS       (2 * S)
#define GRACE_NS         (10 * S) /* then whoever was told to stop is killed */
#define CHECKPOINT_STEPS 10

enum event_kind {
    EVENT_START,
    EVENT_CRASH,
    EVENT_LEAVE,
    EVENT_GRACE,
    EVENT_FREEZE,
    EVENT_WAKE,
    EVENT_CONNECT,
    EVENT_DELIVER,
    EVENT_SILENCE,
    EVENT_STALE,
    EVENT_RESET,
    EVENT_BREAK_DATA,
    EVENT_CUT,
    EVENT_HEAL,
    EVENT_JOB_STOPPED,
    EVENT_JOB_BROKEN,
    EVENT_JOB_LATE,
    EVENT_PULSE,
    EVENT_SYNCHRONISED,
    EVENT_APPLY,
    EVENT_MARK,
    EVENT_EXPECT,
    EVENT_QUIET,
};

struct event {
    uint64_t time_ns, order; /* equal times happen in the order of their making */
    enum event_kind kind;
    size_t from, to; /* machines; `to` is where it happens */
    uint64_t number; /* of a connection, a job's serial, a session, a cut, a set of machines */
    uint64_t step;
    bool flag;
};

/* A vow with all of its places. */
struct kept_vow {
    struct membership_vow vow;
    struct membership_place *places; /* owned */
};

struct packet {
    struct membership_message message;
    struct kept_vow vow;               /* its message.vow */
    struct membership_worker *workers; /* owned: message.workers */
};

enum item_kind { ITEM_UP, ITEM_DOWN, ITEM_MESSAGE, ITEM_REFUSAL };

/* Something under way. */
struct item {
    struct item *next;
    uint64_t time_ns, connection;
    enum item_kind kind;
    struct membership_worker worker; /* ITEM_UP */
    struct packet *packet;           /* owned: ITEM_MESSAGE */
};

/* One direction of a pair: `from` writes, `to` reads. The queue holds what is under way, also of connections
 * that have ended: order is kept over all of them. */
struct direction {
    uint64_t connection; /* number of the one that stands, 0: none */
    struct item *first, *last;
    uint64_t last_ns;       /* when the last thing arrives */
    uint64_t not_before_ns; /* what waited for a heal */
    size_t blocks;          /* cuts in force: nothing passes */
    bool silent;
    uint64_t silent_since_ns;
    bool trying; /* a try to connect is under way; in the direction from the lower index */
};

/* What a machine believes of another one. */
struct belief {
    uint64_t connection; /* 0: not connected */
    struct membership_worker peer;
};

struct disk {
    struct kept_vow kept;
    uint64_t step; /* of the checkpoint */
    uint8_t lineage[MEMBERSHIP_LINEAGE_BYTES];
    uint64_t generation; /* one more each time that it was lost */
};

enum job_stage { JOB_NONE, JOB_ENTERING, JOB_TRAINING, JOB_STOPPING };

struct job {
    enum job_stage stage;
    uint64_t serial; /* events of older jobs are void */
    size_t session;  /* index; where stage is not JOB_NONE */
    bool pause;      /* to be said with the next step */
    bool broken;     /* a connection ended: the next step cannot be made */
    bool applying;   /* a step is complete, and about to be taken over */
};

enum machine_stage { MACHINE_DOWN, MACHINE_RUNNING, MACHINE_FROZEN };

struct machine {
    struct simulation *simulation;
    size_t index;
    enum machine_stage stage;
    bool wanted; /* it runs, or comes back */
    bool hard;   /* the last death told nobody */
    bool silence_first;
    bool comes_back;  /* once it has left */
    uint64_t down_ns; /* how long it stays away the next time, 0: a usual time */
    uint64_t frozen_at_ns;
    struct membership_slot slot;
    uint32_t ipv4;
    struct membership_worker self;
    struct membership *membership; /* NULL: down */
    uint64_t incarnation;
    struct disk disk;
    struct job job;
    uint64_t step;                             /* its state is after this one */
    uint8_t lineage[MEMBERSHIP_LINEAGE_BYTES]; /* in which that was made */
    uint64_t marked_step;

    /* What became of it in a callback; acted upon after the call. */
    bool crash_now, exit_now, leaving, refused_now, save_failed;
    struct belief beliefs[MACHINES];

    uint64_t proposed_view, committed_view; /* the highest numbers of this incarnation */
    uint64_t first_listed; /* the first number that anybody signed with its slot in the list */
};

/* A list that was signed under a number by a slot's disk. */
struct signature {
    size_t machine;
    uint64_t generation, incarnation, view;
    uint32_t ipv4;
    uint8_t digest[MST_SHA256_BYTES], lineage[MEMBERSHIP_LINEAGE_BYTES];
};

/* What was proposed under a number by an incarnation. */
struct proposal {
    size_t machine;
    uint64_t incarnation, view, hash, step;
    bool leaving;
    size_t count;
    struct membership_id reach[MACHINES];
};

/* A view that a disk keeps as one that held, also where its machine died before it could say so. */
struct held {
    uint64_t view;
    uint8_t digest[MST_SHA256_BYTES], lineage[MEMBERSHIP_LINEAGE_BYTES];
    size_t count;
    struct membership_place places[2 * MACHINES];
    uint32_t signers; /* set of machines */
};

/* A view that was told to one machine at least, and the training in it. */
struct session {
    uint64_t view, hash;
    uint8_t digest[MST_SHA256_BYTES], lineage[MEMBERSHIP_LINEAGE_BYTES];
    size_t count;
    struct membership_member members[MACHINES];
    size_t machines[MACHINES];       /* of each member */
    uint64_t incarnations[MACHINES]; /* of each member */
    uint32_t gone;                   /* set of members whose job in it is over */
    uint64_t step, steps_made;
    bool pulsing, synchronising, synchronised;
};

struct cut {
    uint32_t rows[MACHINES]; /* from: set of those to whom nothing passes */
    bool in_force;
};

/* The n-th time that a machine comes to a point, it dies there. */
struct crash_point {
    enum simulation_crash where;
    uint64_t countdown; /* 0: done */
};

struct simulation {
    const struct simulation_scenario *scenario;
    struct simulation_outcome *outcome;
    FILE *trace;
    uint64_t seed, random, now_ns, next_order, next_connection, next_incarnation;
    uint64_t delay_ns, quiet_ns, step_ns;
    struct machine machines[MACHINES];
    size_t machine_count;
    struct direction directions[MACHINES][MACHINES];
    struct cut cuts[CUTS_MAX];
    size_t cut_count;
    struct crash_point crash_points[CRASHES_MAX];
    size_t crash_point_count;
    uint32_t save_fails_one_in; /* 0: never */

    /* owned arrays */
    struct event *heap; /* the earliest first */
    size_t heap_count, heap_capacity;
    struct signature *signatures;
    size_t signature_count, signature_capacity;
    struct proposal *proposals;
    size_t proposal_count, proposal_capacity;
    struct held *held;
    size_t held_count, held_capacity;
    struct session *sessions;
    size_t session_count, session_capacity;

    size_t latest_training; /* session that made the last step, SIZE_MAX: none */
    uint64_t last_step_ns;
    bool settled;
    size_t settled_session; /* the last candidate, since when: SIZE_MAX: none */
    uint64_t settled_at_ns;
};

/* One thing that is done over and over: make room for one more in an array. */
void *simulation_grow(void *array, size_t *count, size_t *capacity, size_t entry_bytes);

/* simulation.c */
void simulation_push(struct simulation *simulation, struct event event);
void simulation_violate(struct simulation *simulation, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void simulation_say(struct simulation *simulation, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
uint64_t simulation_below(struct simulation *simulation, uint64_t bound);
uint64_t simulation_between(struct simulation *simulation, uint64_t low, uint64_t high);
bool simulation_is_quiet(const struct simulation *simulation);

/* simulation_network.c */
void network_send(struct simulation *simulation, size_t from, const struct membership_id *to,
                  const struct membership_message *message);
void network_refuse(struct simulation *simulation, size_t from, const struct membership_id *to);
void network_try_connect(struct simulation *simulation, size_t a, size_t b);
void network_machine_gone(struct simulation *simulation, size_t gone, bool orderly, bool hard);
void network_started(struct simulation *simulation, size_t machine);
void network_frozen(struct simulation *simulation, size_t machine);
void network_woken(struct simulation *simulation, size_t machine);
void network_cut(struct simulation *simulation, size_t cut);
void network_heal(struct simulation *simulation, size_t cut);
void network_event(struct simulation *simulation, const struct event *event);
bool network_passes(const struct simulation *simulation, size_t a, size_t b); /* both ways, now */
/* The connection that `to` believes in stands, and no end of it is on its way. */
bool network_is_calm(const struct simulation *simulation, size_t from, size_t to);
void network_release(struct simulation *simulation);

/* simulation_machine.c */
void machine_start(struct machine *machine);
void machine_event(struct machine *machine, const struct event *event);
void machine_peer_up(struct machine *machine, size_t from, uint64_t connection,
                     const struct membership_worker *peer);
void machine_peer_down(struct machine *machine, size_t from);
void machine_receive(struct machine *machine, size_t from, const struct membership_message *message);
void machine_refused(struct machine *machine);
void machine_stopped(struct machine *machine);
void machine_tick(struct machine *machine);
void machine_settle(struct machine *machine); /* what became of it in the last call */
void machine_release(struct machine *machine);
void machine_keep_vow(struct kept_vow *kept, const struct membership_vow *vow);
void machine_forget_vow(struct kept_vow *kept);
uint64_t machine_signed_view(const struct membership_vow *vow); /* the highest number in it */

/* simulation_job.c */
void job_enter(struct machine *machine, size_t session);
void job_stop(struct machine *machine, bool at_once);
void job_lost(struct machine *machine); /* the machine is gone, or its job has stopped */
void job_event(struct simulation *simulation, const struct event *event);

/* simulation_rules.c */
void rules_proposed(struct machine *machine, const struct membership_message *message);
void rules_signed(struct machine *machine, const struct membership_message *message);
void rules_saved(struct machine *machine, const struct membership_vow *vow);
size_t rules_committed(struct machine *machine, const struct membership_view *view); /* its session */
void rules_left(struct machine *machine, uint64_t view);
void rules_synchronised(struct simulation *simulation, size_t session, uint64_t step);
void rules_step(struct simulation *simulation, size_t session);

/* simulation_scenarios.c */
enum scenario_flag {
    SCENARIO_MINORITY = 1,   /* --allow-minority: two parts may go on */
    SCENARIO_LINEAGES = 2,   /* first views may be formed apart */
    SCENARIO_DISKS_LOST = 4, /* with what they had signed */
    SCENARIO_PAUSED = 8,     /* at the end there is no quorum, and nobody trains */
};

struct simulation_scenario {
    const char *name;
    size_t machines, first, least, most;
    unsigned flags;
    void (*plan)(struct simulation *simulation);
};

#endif
