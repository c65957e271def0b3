/* SPDX-License-Identifier: Apache-2.0 */
/* Is the Swarm fit for a stack? What the manager says of its nodes, what each node's own engine says (nodes
 * file), and what can be seen of the network from this machine. Nothing is written. */
#ifndef SWARM_NODECHECK_H
#define SWARM_NODECHECK_H

#include "muster/compose.h"
#include "nodes.h"
#include "nodesfile.h"
#include "session.h"

enum finding_result { FINDING_OK, FINDING_WARNING, FINDING_FAILED };

struct finding {
    char node[ENGINE_NAME_MAX_BYTES]; /* "": of the stack */
    char check[32];                   /* "state", "name", "address", "version", "reachable", ... */
    enum finding_result result;
    char detail[512];
};

struct findings {
    struct finding *items; /* owned, in the order in which they were made */
    size_t count;
    bool no_memory;
};

const char *finding_result_text(enum finding_result result);
size_t findings_count(const struct findings *findings, enum finding_result result);
void findings_release(struct findings *findings);

/* From the manager's list alone. No I/O. */
void nodecheck_nodes(const struct swarm_nodes *nodes, struct findings *findings);
/* Pins and constraints of each service. No I/O. */
void nodecheck_stack(const struct compose_project *project, const struct swarm_nodes *nodes,
                     struct findings *findings);
/* Each node's own engine: is it reached, is it that node, does its clock agree with this machine's, has it
 * the project's images (project NULL: not looked at). -ECANCELED only. */
int nodecheck_engines(struct session *session, const struct nodesfile *file, const struct swarm_nodes *nodes,
                      const struct compose_project *project, struct findings *findings,
                      struct mst_error *err);
/* Swarm's TCP ports and the size of packets on the way to each node, from this machine. `own_id`: the node
 * that is said to be on this machine (its engine was reached by a socket file); when this machine does not
 * have its address, the nodes are in a network of their own, as a lab's are: nothing is sent, for it would
 * reach somebody else. NULL: none. cancel_fd: readable means stop (-ECANCELED); -1: none. */
int nodecheck_network(const struct swarm_nodes *nodes, const struct compose_project *project,
                      const char *own_id, int cancel_fd, struct findings *findings, struct mst_error *err);

#endif
