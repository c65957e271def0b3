/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_PRIVATE_H
#define PEERS_PRIVATE_H

#include "muster/peers.h"

#include <curl/curl.h>

/* One place to look. */
struct peers_place {
    char name[PEERS_NAME_BYTES]; /* "": nobody gave it one */
    char host[PEERS_NAME_BYTES], port[8];
    char url[PEERS_URL_BYTES];  /* scheme, host, port and prefix */
    char link[PEERS_URL_BYTES]; /* "": none */
    bool is_service;            /* every task of it */
};

struct peers {
    const struct peers_options *options; /* borrowed */
    struct peers_place *places;          /* owned */
    size_t place_count;
    struct peers_node *nodes; /* owned, PEERS_MAX */
    size_t count;
    char *user, *password; /* owned; NULL: none */
    CURLM *multi;          /* keeps connections */
};

/* "tasks.monitor:8080" or an URL. -EINVAL with what was expected. */
int peers_place_parse(const char *text, struct peers_place *ret_place, struct mst_error *err);

#endif
