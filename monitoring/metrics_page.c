/* SPDX-License-Identifier: Apache-2.0 */
/* The families that are there once for the page: the machine, the exporter itself, and training. */
#include "labels.h"
#include "metrics_private.h"
#include "muster/cleanup.h"

#include <stdio.h>

#define COUNTER EXPOSITION_COUNTER
#define GAUGE   EXPOSITION_GAUGE

static void one(struct metrics_page *page, const char *labels, uint64_t value, unsigned scale)
{
    exposition_line(&page->out, &(struct exposition_labels){{labels}},
                    (struct exposition_number){value, scale});
}

#define MACHINE(function, value)                                                                             \
    static void function(struct metrics_page *page)                                                          \
    {                                                                                                        \
        one(page, page->machine, page->pass->machine.value, 0);                                              \
    }
#define OWN(function, value, scale)                                                                          \
    static void function(struct metrics_page *page)                                                          \
    {                                                                                                        \
        one(page, NULL, page->pass->value, scale);                                                           \
    }

MACHINE(machine_cores, cpus)
MACHINE(machine_physical, cores)
MACHINE(machine_sockets, sockets)
MACHINE(machine_memory, memory_bytes)
MACHINE(machine_swap, swap_bytes)

OWN(own_containers, count - (page->pass->count > 0 && page->pass->samples[0].container->is_machine), 0)
OWN(own_errors, faults, 0)
OWN(own_duration, took_ns, 9)
OWN(self_cpu, self.cpu_ns, 9)
OWN(self_max_fds, self.max_fds, 0)
OWN(self_open_fds, self.open_fds, 0)
OWN(self_resident, self.resident_bytes, 0)
OWN(self_start, self.started_ms, 3)
OWN(self_virtual, self.virtual_bytes, 0)

static void version(struct metrics_page *page)
{
    mst_cleanup(mst_buf_release) struct mst_buf labels = MST_BUF_INIT(8192);
    const struct monitor_machine *machine = &page->pass->machine;
    if (labels_append(&labels, "cadvisorRevision", "muster") == 0 &&
        labels_append(&labels, "cadvisorVersion", page->options->version) == 0 &&
        labels_append(&labels, "dockerVersion", machine->engine) == 0 &&
        labels_append(&labels, "kernelVersion", machine->kernel) == 0 &&
        labels_append(&labels, "osVersion", machine->os) == 0)
        one(page, mst_buf_text(&labels), 1, 0);
}

static void machine_error(struct metrics_page *page)
{
    one(page, NULL, page->pass->machine.memory_bytes == 0, 0);
}

/* ---- training ---- */

static int training_labels(const struct monitor_training *training, struct mst_buf *labels)
{
    mst_buf_clear(labels);
    int r = labels_append(labels, "container", training->container);
    if (r == 0)
        r = labels_append(labels, "service", training->service);
    if (r == 0)
        r = labels_append(labels, "slot", training->slot);
    return r == 0 ? labels_append(labels, "stack", training->stack) : r;
}

/* `value` is an expression over `training`. */
#define TRAINING(function, wanted, value)                                                                    \
    static void function(struct metrics_page *page)                                                          \
    {                                                                                                        \
        mst_cleanup(mst_buf_release) struct mst_buf labels = MST_BUF_INIT(8192);                             \
        for (size_t i = 0; i < page->pass->training_count; i++) {                                            \
            const struct monitor_training *training = &page->pass->trainings[i];                             \
            if (!training->is_no_training && (training->groups & (wanted)) == (wanted) &&                    \
                training_labels(training, &labels) == 0)                                                     \
                exposition_line_double(&page->out, &(struct exposition_labels){{mst_buf_text(&labels)}},     \
                                       (double)(value));                                                     \
        }                                                                                                    \
    }

static int gauge_labels(const struct monitor_training *training, const char *name, struct mst_buf *labels)
{
    mst_buf_clear(labels);
    int r = labels_append(labels, "container", training->container);
    if (r == 0)
        r = labels_append(labels, "name", name);
    if (r == 0)
        r = labels_append(labels, "service", training->service);
    if (r == 0)
        r = labels_append(labels, "slot", training->slot);
    return r == 0 ? labels_append(labels, "stack", training->stack) : r;
}

static void each_gauge(struct metrics_page *page, bool is_reports)
{
    mst_cleanup(mst_buf_release) struct mst_buf labels = MST_BUF_INIT(8192);
    for (size_t i = 0; i < page->pass->training_count; i++) {
        const struct monitor_training *training = &page->pass->trainings[i];
        for (size_t g = 0; g < training->gauge_count; g++) {
            const struct monitor_gauge *gauge = &training->gauges[g];
            if (gauge_labels(training, gauge->name, &labels) == 0)
                exposition_line_double(&page->out, &(struct exposition_labels){{mst_buf_text(&labels)}},
                                       is_reports ? (double)gauge->reports : gauge->value);
        }
    }
}

static void gauges(struct metrics_page *page)
{
    each_gauge(page, false);
}

static void gauge_reports(struct metrics_page *page)
{
    each_gauge(page, true);
}

TRAINING(training_accuracy, MONITOR_TRAINING_PROGRESS, training->accuracy)
TRAINING(training_checkpoints, 0U, training->checkpoints)
TRAINING(training_done, 0U, training->is_done)
TRAINING(training_epoch, MONITOR_TRAINING_PROGRESS, training->epoch)
TRAINING(training_epochs, MONITOR_TRAINING_PROGRESS, training->epochs)
TRAINING(training_failed, 0U, training->has_failed)
TRAINING(training_loss, MONITOR_TRAINING_PROGRESS, training->loss)
TRAINING(training_lost, 0U, training->lost)
TRAINING(training_members, MONITOR_TRAINING_VIEW, training->members)
TRAINING(training_rank, MONITOR_TRAINING_PROGRESS, training->rank)
TRAINING(training_recoveries, 0U, training->recoveries)
TRAINING(training_sent, 0U, training->bytes_sent)
TRAINING(training_step, MONITOR_TRAINING_PROGRESS, training->step)
TRAINING(training_step_seconds, MONITOR_TRAINING_PROGRESS, training->ms_per_step / 1000)
TRAINING(training_steps, MONITOR_TRAINING_PROGRESS, training->steps)
TRAINING(training_test_accuracy, MONITOR_TRAINING_TEST, training->test_accuracy)
TRAINING(training_test_loss, MONITOR_TRAINING_TEST, training->test_loss)
TRAINING(training_view, MONITOR_TRAINING_VIEW, training->view)

/* clang-format off */
const struct metrics_family metrics_of_page[] = {
    {"cadvisor_version_info", "Versions of the exporter, the engine, the kernel and the system, always 1", GAUGE, METRICS_MACHINE, .whole = version},
    {"machine_cpu_cores", "Logical CPUs", GAUGE, METRICS_MACHINE, .whole = machine_cores},
    {"machine_cpu_physical_cores", "Physical CPU cores", GAUGE, METRICS_MACHINE, .whole = machine_physical},
    {"machine_cpu_sockets", "CPU sockets", GAUGE, METRICS_MACHINE, .whole = machine_sockets},
    {"machine_memory_bytes", "Memory", GAUGE, METRICS_MACHINE, .whole = machine_memory},
    {"machine_scrape_error", "1 if the machine could not be read, else 0", GAUGE, METRICS_MACHINE, .whole = machine_error},
    {"machine_swap_bytes", "Swap", GAUGE, METRICS_MACHINE, .whole = machine_swap},
    {"muster_accuracy", "Training accuracy of the newest steps, 0 to 1", GAUGE, METRICS_TRAINING, .whole = training_accuracy},
    {"muster_checkpoints_total", "Checkpoints written since the monitor follows the worker", COUNTER, METRICS_TRAINING, .whole = training_checkpoints},
    {"muster_containers", "Containers that were read", GAUGE, METRICS_OWN, .whole = own_containers},
    {"muster_epoch", "Epoch of the training", GAUGE, METRICS_TRAINING, .whole = training_epoch},
    {"muster_epochs", "Epochs that the training is to have", GAUGE, METRICS_TRAINING, .whole = training_epochs},
    {"muster_loss", "Training loss of the newest steps", GAUGE, METRICS_TRAINING, .whole = training_loss},
    {"muster_lost_workers_total", "Workers that this one has seen going away", COUNTER, METRICS_TRAINING, .whole = training_lost},
    {"muster_members", "Workers in the view", GAUGE, METRICS_TRAINING, .whole = training_members},
    {"muster_rank", "Rank of the worker", GAUGE, METRICS_TRAINING, .whole = training_rank},
    {"muster_read_errors_total", "Files that could not be read or made no sense", COUNTER, METRICS_OWN, .whole = own_errors},
    {"muster_recoveries_total", "Changes of the view that training went on after", COUNTER, METRICS_TRAINING, .whole = training_recoveries},
    {"muster_reported_value", "What a program reports by the event gauge", GAUGE, METRICS_TRAINING, .whole = gauges},
    {"muster_reports_total", "How often a program has reported a gauge", COUNTER, METRICS_TRAINING, .whole = gauge_reports},
    {"muster_scrape_duration_seconds", "Time that reading all containers took", GAUGE, METRICS_OWN, .whole = own_duration},
    {"muster_sent_bytes_total", "Bytes of gradients that the worker has sent, by its epochs", COUNTER, METRICS_TRAINING, .whole = training_sent},
    {"muster_step", "Step of the training", GAUGE, METRICS_TRAINING, .whole = training_step},
    {"muster_step_seconds", "Duration of a step", GAUGE, METRICS_TRAINING, .whole = training_step_seconds},
    {"muster_steps", "Steps that the training is to have", GAUGE, METRICS_TRAINING, .whole = training_steps},
    {"muster_test_accuracy", "Accuracy on the test data, 0 to 1", GAUGE, METRICS_TRAINING, .whole = training_test_accuracy},
    {"muster_test_loss", "Loss on the test data", GAUGE, METRICS_TRAINING, .whole = training_test_loss},
    {"muster_training_done", "1 when the worker has finished", GAUGE, METRICS_TRAINING, .whole = training_done},
    {"muster_training_failed", "1 when the worker has failed", GAUGE, METRICS_TRAINING, .whole = training_failed},
    {"muster_view", "Number of the view", GAUGE, METRICS_TRAINING, .whole = training_view},
    {"process_cpu_seconds_total", "CPU time of the exporter", COUNTER, METRICS_OWN, .whole = self_cpu},
    {"process_max_fds", "Limit of open file descriptors", GAUGE, METRICS_OWN, .whole = self_max_fds},
    {"process_open_fds", "Open file descriptors", GAUGE, METRICS_OWN, .whole = self_open_fds},
    {"process_resident_memory_bytes", "Resident memory", GAUGE, METRICS_OWN, .whole = self_resident},
    {"process_start_time_seconds", "When the exporter was started, in Unix time", GAUGE, METRICS_OWN, .whole = self_start},
    {"process_virtual_memory_bytes", "Virtual memory", GAUGE, METRICS_OWN, .whole = self_virtual},
};
/* clang-format on */
const size_t metrics_of_page_count = MST_ARRAY_COUNT(metrics_of_page);
