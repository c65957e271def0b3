/* SPDX-License-Identifier: Apache-2.0 */
/* What one agreement costs at 3 to 1000 workers: a first view, and the next one after a loss. The real state
 * machine in a network without faults, where all workers say the same: so one machine's own messages, handed
 * back to it as those of all the others, are what it would get from them. That bounds the memory (a machine
 * keeps what each of its peers reaches), and any number of machines can be tried one after the other; all of
 * them must come to the same messages. Times are worked out from the messages' delays and sizes.
 *
 * bench_membership [--machines N] [--delay US] [--rate MBIT] [--json FILE] */
#include "control.h"
#include "membership.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/opts.h"
#include "muster/parse.h"
#include "muster/table.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FRAME_BYTES 32 /* length, type, counter and MAC around a payload: docs/protocol.md */
#define FRAME_MAX   (1 << 18)

static const size_t sizes[] = {3, 8, 16, 32, 64, 128, 256, 512, 1000};

struct settings {
    uint32_t machines, delay_us, rate_mbit;
    FILE *json; /* beside the table; NULL: none */
};

static int set_machines(void *settings, const char *text, struct mst_error *err)
{
    return mst_parse_u32(text, 1, 1000, &((struct settings *)settings)->machines, err);
}

static int set_delay(void *settings, const char *text, struct mst_error *err)
{
    return mst_parse_u32(text, 0, 1000000, &((struct settings *)settings)->delay_us, err);
}

static int set_rate(void *settings, const char *text, struct mst_error *err)
{
    return mst_parse_u32(text, 1, 1000000, &((struct settings *)settings)->rate_mbit, err);
}

static int set_json(void *settings, const char *text, struct mst_error *err)
{
    FILE *file = fopen(text, "we");
    ((struct settings *)settings)->json = file;
    return file ? 0 : mst_error_errno(err, -errno, "open '%s'", text);
}

static const struct mst_option option_table[] = {
    {.name = "machines",
     .argument = "N",
     .fallback = "8",
     .help = "state machines that are tried at each size, 1 to 1000",
     .set = set_machines},
    {.name = "delay",
     .argument = "US",
     .fallback = "500",
     .help = "of a message, at most, in microseconds; each has one of its own",
     .set = set_delay},
    {.name = "rate",
     .argument = "MBIT",
     .fallback = "1000",
     .help = "of each worker's link, both ways, in Mbit/s",
     .set = set_rate},
    {.name = "json", .argument = "FILE", .help = "write the figures there as JSON, too", .set = set_json},
};

/* One agreement at one size. */
struct row {
    size_t workers;
    const char *what;
    double messages, bytes;             /* in all */
    double propose_bytes, commit_bytes; /* of one, with its frame */
    double cpu_ms, memory_bytes;        /* of a worker, the mean over the machines tried */
    double delay_ms, transfer_ms;       /* of the slowest, from the first proposal to the view */
};

/* ---- one machine ---- */

struct machine {
    struct membership *membership;
    struct membership_message proposed, signed_; /* said last */
    struct membership_worker *workers;           /* owned: proposed.workers */
    struct membership_place *places;             /* owned: proposed.vow.held.places */
    size_t proposals, signatures, commits, stops;
    uint64_t view;
};

static void *copy(const void *bytes, size_t count, size_t entry_bytes)
{
    void *array = calloc(count + 1, entry_bytes);
    if (!array)
        abort(); /* a benchmark's machine without memory measures nothing */
    if (count > 0)
        memcpy(array, bytes, count * entry_bytes);
    return array;
}

static void on_send(void *context, const struct membership_id *to, const struct membership_message *message)
{
    struct machine *machine = context;
    (void)to;
    if (message->kind == MEMBERSHIP_COMMIT) {
        machine->signed_ = *message;
        machine->signatures++;
    } else if (message->kind == MEMBERSHIP_PROPOSE) {
        machine->proposals++;
        if (machine->proposed.view == message->view)
            return; /* to the next one */
        free(machine->workers);
        free(machine->places);
        machine->proposed = *message;
        machine->workers = copy(message->workers, message->count, sizeof *message->workers);
        machine->places = copy(message->vow.held.places, message->vow.held.count, sizeof *machine->places);
        machine->proposed.workers = machine->workers;
        machine->proposed.vow.held.places = machine->places;
    }
}

static int on_save(void *context, const struct membership_vow *vow, struct mst_error *err)
{
    (void)context;
    (void)vow;
    (void)err;
    return 0;
}

static void on_stop(void *context, bool at_once, const char *reason)
{
    (void)at_once;
    (void)reason;
    ((struct machine *)context)->stops++;
}

static void on_committed(void *context, const struct membership_view *view)
{
    struct machine *machine = context;
    machine->commits++;
    machine->view = view->view;
}

static void on_left(void *context, uint64_t view)
{
    (void)context;
    (void)view;
}

static void on_refuse(void *context, const struct membership_id *peer, bool full)
{
    (void)context;
    (void)peer;
    (void)full;
}

static struct membership_worker worker_at(size_t index)
{
    struct membership_worker worker = {.ipv4 = 0x0a000001U + (uint32_t)index, .port = 7070};
    uint64_t noise = (index + 1) * 0x9e3779b97f4a7c15ULL; /* ids in another order than addresses */
    memcpy(worker.id.bytes, &noise, sizeof noise);
    memcpy(worker.slot.bytes, &noise, sizeof noise);
    worker.slot.bytes[15] = 1;
    return worker;
}

static double cpu_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static double heap_bytes(void)
{
    const struct mallinfo2 info = mallinfo2();
    return (double)info.uordblks + (double)info.hblkhd;
}

static double frame_bytes(const struct membership_message *message)
{
    mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(FRAME_MAX);
    return control_pack_membership(&payload, message) < 0 ? 0 : (double)payload.count + FRAME_BYTES;
}

/* What all others say is what this one said: first its proposal, then its signature. */
static int hear(struct machine *machine, size_t workers, size_t self, bool signature, struct mst_error *err)
{
    const struct membership_message message = signature ? machine->signed_ : machine->proposed;
    for (size_t w = 0; w < workers; w++) {
        const struct membership_worker peer = worker_at(w);
        const int r = w == self ? 0 : membership_receive(machine->membership, &peer.id, &message, 1, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* From the first proposal to the view, in this machine. */
static int agree(struct machine *machine, size_t workers, size_t self, struct mst_error *err)
{
    const size_t commits = machine->commits;
    int r = hear(machine, workers, self, false, err);
    if (r == 0)
        r = hear(machine, workers, self, true, err);
    if (r == 0 && machine->commits != commits + 1)
        r = mst_error_set(err, -EUCLEAN, "worker %zu of %zu came to no view", self, workers);
    return r;
}

/* All machines must say the same, or nothing follows from one of them for the others. */
static int check_same(const struct machine *machine, struct membership_message *first, struct mst_error *err)
{
    if (first->view == 0)
        *first = machine->signed_;
    if (first->view != machine->signed_.view ||
        memcmp(first->digest, machine->signed_.digest, sizeof first->digest) != 0)
        return mst_error_set(err, -EUCLEAN, "two workers signed different lists");
    return 0;
}

static void note_sizes(const struct machine *machine, struct row *row)
{
    row->propose_bytes = frame_bytes(&machine->proposed);
    row->commit_bytes = frame_bytes(&machine->signed_);
}

static void machine_release(struct machine *machine)
{
    membership_free(machine->membership);
    free(machine->workers);
    free(machine->places);
}

/* A first view of all, then the last worker is lost. */
static int try_machine(size_t workers, size_t self, struct row rows[static 2],
                       struct membership_message firsts[static 2], struct mst_error *err)
{
    mst_cleanup(machine_release) struct machine machine = {0};
    const struct membership_options options = {
        .self = worker_at(self), .first = workers, .least = 1, .most = workers};
    const struct membership_callbacks callbacks = {.context = &machine,
                                                   .send = on_send,
                                                   .save_vow = on_save,
                                                   .stop = on_stop,
                                                   .committed = on_committed,
                                                   .left = on_left,
                                                   .refuse = on_refuse};
    const double heap = heap_bytes();
    double began_ms = cpu_ms();
    int r = membership_new(&options, &callbacks, &machine.membership, err);
    if (r == 0)
        r = membership_start(machine.membership, 0, 0, err);
    for (size_t w = 0; r == 0 && w < workers; w++) {
        const struct membership_worker peer = worker_at(w);
        if (w != self)
            r = membership_peer_up(machine.membership, &peer, 1, err);
    }
    if (r == 0)
        r = agree(&machine, workers, self, err);
    if (r < 0)
        return r;
    rows[0].cpu_ms += cpu_ms() - began_ms;
    rows[0].memory_bytes += heap_bytes() - heap;
    note_sizes(&machine, &rows[0]);
    r = check_same(&machine, &firsts[0], err);

    const struct membership_worker lost = worker_at(workers - 1);
    began_ms = cpu_ms();
    if (r == 0)
        r = membership_peer_down(machine.membership, &lost.id, 2, err);
    if (r == 0)
        r = membership_stopped(machine.membership, 1, 2, err);
    if (r == 0)
        r = agree(&machine, workers - 1, self, err);
    if (r < 0)
        return r;
    rows[1].cpu_ms += cpu_ms() - began_ms;
    rows[1].memory_bytes += heap_bytes() - heap;
    note_sizes(&machine, &rows[1]);
    return check_same(&machine, &firsts[1], err);
}

/* ---- the network ---- */

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ULL); /* splitmix64 (Steele, Lea, Flood 2014) */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

/* Everybody sends at its own time to all others: when does the last message reach each one? In ms, in place.
 */
static void round_of(double *times, size_t workers, double delay_ms, uint64_t *random)
{
    double *arrived = copy(times, workers, sizeof *arrived);
    for (size_t from = 0; from < workers; from++) {
        for (size_t to = 0; to < workers; to++) {
            const double at =
                times[from] + delay_ms * (double)(next_random(random) % 1000000) / 1e6 * (from != to);
            if (at > arrived[to])
                arrived[to] = at;
        }
    }
    memcpy(times, arrived, workers * sizeof *times);
    free(arrived);
}

/* Two rounds; beside the delays, the bytes must go through each worker's link. */
static void work_out(struct row *row, const struct settings *settings)
{
    const double others = (double)row->workers - 1, bits_per_ms = (double)settings->rate_mbit * 1e3;
    double *times = calloc(row->workers, sizeof *times);
    uint64_t random = row->workers;
    if (!times)
        abort();
    round_of(times, row->workers, (double)settings->delay_us / 1e3, &random);
    round_of(times, row->workers, (double)settings->delay_us / 1e3, &random);
    for (size_t w = 0; w < row->workers; w++)
        if (times[w] > row->delay_ms)
            row->delay_ms = times[w];
    free(times);
    row->messages = 2 * (double)row->workers * others;
    row->bytes = (double)row->workers * others * (row->propose_bytes + row->commit_bytes);
    row->transfer_ms = others * (row->propose_bytes + row->commit_bytes) * 8 / bits_per_ms;
}

static int measure(size_t workers, const struct settings *settings, struct row rows[static 2],
                   struct mst_error *err)
{
    struct membership_message firsts[2] = {{0}, {0}};
    const size_t tried = settings->machines < workers - 1 ? settings->machines : workers - 1;
    rows[0] = (struct row){.workers = workers, .what = "first view"};
    rows[1] = (struct row){.workers = workers - 1, .what = "a loss"};
    for (size_t m = 0; m < tried; m++) {
        const int r = try_machine(workers, m * (workers - 1) / tried, rows, firsts, err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < 2; i++) {
        rows[i].cpu_ms /= (double)tried;
        rows[i].memory_bytes /= (double)tried;
        work_out(&rows[i], settings);
    }
    return 0;
}

/* ---- for people ---- */

static double total_ms(const struct row *row)
{
    return row->delay_ms + row->transfer_ms + row->cpu_ms;
}

static int print_table(const struct row *rows, size_t count, struct mst_error *err)
{
    struct mst_table *table = NULL;
    int r = mst_table_new("AGREEMENT|>WORKERS|>MESSAGES|>MB IN ALL|>PROPOSE BYTES|>COMMIT BYTES|>MB A WORKER "
                          "SENDS|>MB KEPT|>CPU MS|>DELAY MS|>TRANSFER MS|>MS",
                          &table, err);
    for (size_t i = 0; r == 0 && i < count; i++) {
        const struct row *row = &rows[i];
        r |= mst_table_cell(table, "%s", row->what);
        r |= mst_table_cell(table, "%zu", row->workers);
        r |= mst_table_cell(table, "%.0f", row->messages);
        r |= mst_table_cell(table, "%.3f", row->bytes / 1e6);
        r |= mst_table_cell(table, "%.0f", row->propose_bytes);
        r |= mst_table_cell(table, "%.0f", row->commit_bytes);
        r |= mst_table_cell(table, "%.3f", row->bytes / 1e6 / (double)row->workers);
        r |= mst_table_cell(table, "%.2f", row->memory_bytes / 1e6);
        r |= mst_table_cell(table, "%.2f", row->cpu_ms);
        r |= mst_table_cell(table, "%.2f", row->delay_ms);
        r |= mst_table_cell(table, "%.2f", row->transfer_ms);
        r |= mst_table_cell(table, "%.2f", total_ms(row));
    }
    if (r == 0)
        r = mst_table_print(table, stdout);
    mst_table_free(table);
    return r;
}

static void print_json(const struct row *rows, size_t count, const struct settings *settings)
{
    FILE *json = settings->json;
    (void)fprintf(json,
                  "{\"benchmark\":\"membership\",\"machines\":%u,\"delay_us\":%u,\"rate_mbit\":%u,\"rows\":[",
                  settings->machines, settings->delay_us, settings->rate_mbit);
    for (size_t i = 0; i < count; i++)
        (void)fprintf(json,
                      "%s{\"agreement\":\"%s\",\"workers\":%zu,\"messages\":%.0f,\"bytes\":%.0f,"
                      "\"propose_bytes\":%.0f,\"commit_bytes\":%.0f,\"kept_bytes\":%.0f,\"cpu_ms\":%.3f,"
                      "\"delay_ms\":%.3f,\"transfer_ms\":%.3f,\"ms\":%.3f}",
                      i > 0 ? "," : "", rows[i].what, rows[i].workers, rows[i].messages, rows[i].bytes,
                      rows[i].propose_bytes, rows[i].commit_bytes, rows[i].memory_bytes, rows[i].cpu_ms,
                      rows[i].delay_ms, rows[i].transfer_ms, total_ms(&rows[i]));
    (void)fprintf(json, "]}\n");
}

static int run(const struct settings *settings, struct mst_error *err)
{
    struct row rows[2 * MST_ARRAY_COUNT(sizes)];
    (void)membership_slot_of("warm"); /* libcrypto sets itself up at its first use */
    for (size_t s = 0; s < MST_ARRAY_COUNT(sizes); s++) {
        const int r = measure(sizes[s], settings, &rows[2 * s], err);
        if (r < 0)
            return r;
    }
    const int r = print_table(rows, MST_ARRAY_COUNT(rows), err);
    if (r == 0 && settings->json)
        print_json(rows, MST_ARRAY_COUNT(rows), settings);
    return r;
}

int main(int argc, char **argv)
{
    static const struct mst_options options = {
        .program = "bench_membership",
        .synopsis = "[options]",
        .about = "Messages, bytes, memory and time of one agreement among 3 to 1000 workers.",
        .table = option_table,
        .count = MST_ARRAY_COUNT(option_table)};
    struct settings settings = {0};
    struct mst_error err = MST_ERROR_INIT;
    int operands;
    const int parsed = mst_options_parse(&options, argc, argv, &settings, &operands, &err);
    if (parsed > 0)
        return MST_EXIT_DONE;
    const int r = parsed < 0 ? parsed : run(&settings, &err);
    if (r < 0)
        (void)fprintf(stderr, "bench_membership: %s\n", err.text);
    if (settings.json && fclose(settings.json) != 0)
        return MST_EXIT_FAILED;
    return r < 0 ? mst_exit_status(r) : MST_EXIT_DONE;
}
