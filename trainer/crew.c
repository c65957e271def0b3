/* SPDX-License-Identifier: Apache-2.0 */
#include "crew.h"

#include "muster/clock.h"
#include "muster/trainer.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Products follow each other within some microseconds, and it takes longer to fall asleep and to be woken. */
#define LOOK_NS (50 * UINT64_C(1000))

/* What is to be done is one word, so that a thread that comes late cannot take a part of what is over: a
 * number that changes with each work, the number of its parts, and the first that nobody has begun. A part
 * that was taken keeps the work from ending, and so `work` and `context` from changing. */
static struct {
    pthread_mutex_t office; /* guards hired, count and threads */
    uint32_t hired;         /* by so many trainers */
    uint32_t count;
    pthread_t threads[TRAINER_MAX_THREADS];
    pthread_mutex_t lock; /* held while the conditions change: there is something to do; nothing is left */
    pthread_cond_t begun, ended;
    atomic_uint size; /* 0 is 1 */
    atomic_bool taken, stopping;
    atomic_uint asleep, left; /* left: parts of the work under way that are not done */
    _Atomic uint64_t word;
    void (*work)(void *context, uint32_t part);
    void *context;
} crew = {.office = PTHREAD_MUTEX_INITIALIZER,
          .lock = PTHREAD_MUTEX_INITIALIZER,
          .begun = PTHREAD_COND_INITIALIZER,
          .ended = PTHREAD_COND_INITIALIZER};

static uint64_t word_of(uint32_t number, uint32_t parts)
{
    return (uint64_t)number << 32 | (uint64_t)parts << 16;
}

static uint32_t number_of(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

static uint32_t parts_of(uint64_t word)
{
    return (uint32_t)(word >> 16) & 0xffff;
}

static uint32_t next_of(uint64_t word)
{
    return (uint32_t)word & 0xffff;
}

static bool has_part(void)
{
    const uint64_t word = atomic_load(&crew.word);
    return next_of(word) < parts_of(word);
}

/* Take a part and do it; false: all are taken. */
static bool do_part(void)
{
    uint64_t word = atomic_load(&crew.word);

    do {
        if (next_of(word) >= parts_of(word))
            return false;
    } while (!atomic_compare_exchange_weak(&crew.word, &word, word + 1));
    crew.work(crew.context, next_of(word));
    if (atomic_fetch_sub(&crew.left, 1) == 1) {
        (void)pthread_mutex_lock(&crew.lock);
        (void)pthread_cond_signal(&crew.ended);
        (void)pthread_mutex_unlock(&crew.lock);
    }
    return true;
}

static void relax(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

static bool is_over(void)
{
    return atomic_load(&crew.left) == 0;
}

static bool has_call(void)
{
    return has_part() || atomic_load(&crew.stopping);
}

/* For a little while only; false: it is not so yet. */
static bool look_for(bool (*is_so)(void))
{
    const uint64_t start_ns = mst_now_ns();

    do {
        for (int i = 0; i < 16; i++) {
            if (is_so())
                return true;
            relax();
        }
    } while (mst_now_ns() - start_ns < LOOK_NS);
    return false;
}

static void await_call(void)
{
    if (look_for(has_call))
        return;
    (void)pthread_mutex_lock(&crew.lock);
    atomic_fetch_add(&crew.asleep, 1);
    while (!has_call())
        (void)pthread_cond_wait(&crew.begun, &crew.lock);
    atomic_fetch_sub(&crew.asleep, 1);
    (void)pthread_mutex_unlock(&crew.lock);
}

static void *be_of_the_crew(void *unused)
{
    (void)unused;
    while (!atomic_load(&crew.stopping)) {
        while (do_part())
            ;
        await_call();
    }
    return NULL;
}

static void wake_all(void)
{
    (void)pthread_mutex_lock(&crew.lock);
    (void)pthread_cond_broadcast(&crew.begun);
    (void)pthread_mutex_unlock(&crew.lock);
}

void crew_share(uint32_t parts, void (*work)(void *context, uint32_t part), void *context)
{
    assert(parts <= CREW_MAX_PARTS);
    if (parts <= 1 || crew_size() == 1 || atomic_exchange(&crew.taken, true)) {
        for (uint32_t part = 0; part < parts; part++)
            work(context, part);
        return;
    }
    crew.work = work;
    crew.context = context;
    atomic_store(&crew.left, parts);
    atomic_store(&crew.word, word_of(number_of(atomic_load(&crew.word)) + 1, parts));
    if (atomic_load(&crew.asleep) > 0)
        wake_all();
    while (do_part())
        ;
    if (!look_for(is_over)) {
        (void)pthread_mutex_lock(&crew.lock);
        while (!is_over())
            (void)pthread_cond_wait(&crew.ended, &crew.lock);
        (void)pthread_mutex_unlock(&crew.lock);
    }
    atomic_store(&crew.taken, false);
}

uint32_t crew_size(void)
{
    const uint32_t size = atomic_load(&crew.size);
    return size > 0 ? size : 1;
}

/* The process's signals are for the threads that know what to do with them. */
static int add_threads(uint32_t wanted, struct mst_error *err)
{
    sigset_t all, before;
    int code = 0;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    while (crew.count < wanted && code == 0) {
        code = pthread_create(&crew.threads[crew.count], NULL, be_of_the_crew, NULL);
        crew.count += code == 0;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code == 0 ? 0
                     : mst_error_errno(err, -code, "start thread %" PRIu32 " of %" PRIu32, crew.count + 2,
                                       wanted + 1);
}

static void send_home(void)
{
    atomic_store(&crew.size, 0);
    atomic_store(&crew.stopping, true);
    wake_all();
    while (crew.count > 0)
        (void)pthread_join(crew.threads[--crew.count], NULL);
    atomic_store(&crew.stopping, false);
}

int crew_hire(uint32_t threads, struct mst_error *err)
{
    assert(threads >= 1 && threads <= TRAINER_MAX_THREADS);
    (void)pthread_mutex_lock(&crew.office);
    const int r = add_threads(threads - 1, err);
    if (r == 0) {
        crew.hired++;
        atomic_store(&crew.size, threads);
    } else if (crew.hired == 0) {
        send_home();
    }
    (void)pthread_mutex_unlock(&crew.office);
    return r;
}

void crew_dismiss(void)
{
    (void)pthread_mutex_lock(&crew.office);
    assert(crew.hired > 0);
    if (--crew.hired == 0)
        send_home();
    (void)pthread_mutex_unlock(&crew.office);
}
