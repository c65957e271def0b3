/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as what says where engines are and who may pull from a registry: a docker context, docker's
 * configuration (its current context, its credentials), and a nodes file. What is refused leaves nothing and
 * says why. */
#include "auth.h"
#include "endpoint.h"
#include "fuzz_file.h"
#include "muster/cleanup.h"
#include "muster/digest.h"
#include "muster/file.h"
#include "nodesfile.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

#define CONTEXT "fuzz"
#define IMAGE   "registry.example:5000/image:1"

/* docker's folder, and what stands in it: the deepest last. */
static char folder[] = "/tmp/muster-fuzz-XXXXXX";
static char *made[6];

static void remove_folder(void)
{
    for (size_t i = MST_ARRAY_COUNT(made); i-- > 0;) {
        if (remove(made[i]) < 0)
            perror(made[i]);
        free(made[i]);
    }
}

/* Both files lead to the input's. No helper that a configuration names can be run. */
static void make_folder(const char *input)
{
    char hex[MST_SHA256_HEX_BYTES];
    uint8_t digest[MST_SHA256_BYTES];

    if (!mkdtemp(folder) || mst_sha256(CONTEXT, strlen(CONTEXT), digest, NULL) < 0)
        abort();
    mst_hex(digest, sizeof digest, hex);
    made[0] = strdup(folder);
    made[1] = mst_format("%s/config.json", folder);
    made[2] = mst_format("%s/contexts", folder);
    made[3] = mst_format("%s/contexts/meta", folder);
    made[4] = mst_format("%s/contexts/meta/%s", folder, hex);
    made[5] = mst_format("%s/contexts/meta/%s/meta.json", folder, hex);
    for (size_t i = 0; i < MST_ARRAY_COUNT(made); i++)
        if (!made[i])
            abort();
    if (mst_make_folders(made[4], 0700, NULL) < 0 || symlink(input, made[1]) < 0 ||
        symlink(input, made[5]) < 0 || atexit(remove_folder) != 0)
        abort();
    if (setenv("DOCKER_CONFIG", folder, 1) < 0 || setenv("PATH", "/nonexistent", 1) < 0 ||
        unsetenv("DOCKER_HOST") < 0 || unsetenv("DOCKER_CONTEXT") < 0)
        abort();
}

/* The same file for each input: the folder leads to it. */
static void write_input(const uint8_t *bytes, size_t count)
{
    static struct fuzz_file file = {.fd = -1};

    if (file.fd < 0) {
        file = fuzz_file_open(NULL, 0);
        make_folder(file.path);
    }
    if (ftruncate(file.fd, 0) < 0 || pwrite(file.fd, bytes, count, 0) != (ssize_t)count)
        abort();
}

static void check_refusal(int code, const struct mst_error *err)
{
    if (code < 0 && (err->code != code || err->text[0] == '\0'))
        abort();
}

static void as_context(void)
{
    struct engine_endpoint endpoint;
    struct mst_error err = MST_ERROR_INIT;
    int r = endpoint_init(&endpoint, NULL, CONTEXT, &err);

    check_refusal(r, &err);
    if (r >= 0 && (!endpoint.text || !endpoint.base_url))
        abort();
    if (r >= 0)
        endpoint_release(&endpoint);
}

static void as_configuration(void)
{
    mst_cleanup(auth_freep) char *line = NULL;
    mst_cleanup(mst_freep) char *name = NULL;
    struct mst_error err = MST_ERROR_INIT;

    check_refusal(context_current(&name, &err), &err);
    err = (struct mst_error)MST_ERROR_INIT;
    check_refusal(auth_header(IMAGE, &line, &err), &err);
    /* What goes into a header ends no line. */
    if (line && (strncmp(line, "X-Registry-Auth: ", 17) != 0 || strpbrk(line, "\r\n")))
        abort();
}

static void as_nodes_file(const uint8_t *bytes, size_t count)
{
    mst_cleanup(nodesfile_release) struct nodesfile nodes = {0};
    mst_cleanup(mst_freep) char *text = strndup((const char *)bytes, count);
    struct mst_error err = MST_ERROR_INIT;

    if (!text)
        return;
    check_refusal(nodesfile_parse(text, "nodes", &nodes, &err), &err);
    for (size_t i = 0; i < nodes.count; i++) {
        if (nodesfile_host(&nodes, nodes.items[i].hostname) != nodes.items[i].host ||
            strpbrk(nodes.items[i].host, " \t\r\n"))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    write_input(bytes, count);
    as_context();
    as_configuration();
    as_nodes_file(bytes, count);
    return 0;
}
