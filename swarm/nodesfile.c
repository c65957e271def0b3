/* SPDX-License-Identifier: Apache-2.0 */
#include "nodesfile.h"

#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/file.h"

#include <string.h>

#define FILE_MAX_BYTES ((size_t)1 << 20)
#define BLANKS         " \t\r"

static int add(struct nodesfile *file, const char *hostname, size_t hostname_bytes, const char *host,
               size_t host_bytes)
{
    struct nodesfile_entry *items = reallocarray(file->items, file->count + 1, sizeof *items);

    if (!items)
        return -ENOMEM;
    file->items = items;
    items[file->count] =
        (struct nodesfile_entry){strndup(hostname, hostname_bytes), strndup(host, host_bytes)};
    file->count++;
    return items[file->count - 1].hostname && items[file->count - 1].host ? 0 : -ENOMEM;
}

static int take_line(struct nodesfile *file, const char *line, size_t bytes, const char *name,
                     unsigned number, struct mst_error *err)
{
    const char *end = line + bytes, *host;
    size_t hostname_bytes, host_bytes;

    line += strspn(line, BLANKS);
    if (line >= end || *line == '#' || *line == '\n')
        return 0;
    hostname_bytes = strcspn(line, BLANKS "\n");
    host = line + hostname_bytes;
    host += strspn(host, BLANKS);
    host_bytes = host < end ? strcspn(host, BLANKS "\n") : 0;
    if (host_bytes == 0 || host + host_bytes + strspn(host + host_bytes, BLANKS) < end)
        return mst_error_set(err, -EBADMSG,
                             "%s:%u: expected a node's host name and its engine ('node2 ssh://me@node2')",
                             name, number);
    for (size_t i = 0; i < file->count; i++) {
        if (strlen(file->items[i].hostname) == hostname_bytes &&
            strncmp(file->items[i].hostname, line, hostname_bytes) == 0)
            return mst_error_set(err, -EBADMSG, "%s:%u: node '%s' stands twice", name, number,
                                 file->items[i].hostname);
    }
    if (file->count >= NODESFILE_NODES_MAX)
        return mst_error_set(err, -EBADMSG, "%s:%u: more than %d nodes", name, number, NODESFILE_NODES_MAX);
    if (add(file, line, hostname_bytes, host, host_bytes) < 0)
        return mst_error_set(err, -ENOMEM, "%s: no memory", name);
    return 0;
}

int nodesfile_parse(const char *text, const char *name, struct nodesfile *ret_file, struct mst_error *err)
{
    struct nodesfile file = {0};
    int r = 0;

    for (unsigned number = 1; *text != '\0' && r >= 0; number++) {
        const size_t bytes = strcspn(text, "\n");
        r = take_line(&file, text, bytes, name, number, err);
        text += bytes + (text[bytes] == '\n');
    }
    if (r >= 0 && file.count == 0)
        r = mst_error_set(err, -EBADMSG, "%s: it names no node", name);
    if (r < 0) {
        nodesfile_release(&file);
        return r;
    }
    *ret_file = file;
    return 0;
}

int nodesfile_read(const char *path, struct nodesfile *ret_file, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(FILE_MAX_BYTES);
    const int r = mst_file_read(path, &text, err);

    /* A file that was named and cannot be read is a fault of the input, as a stack file is. */
    if (r < 0)
        return mst_error_wrap(err, r == -ENOMEM ? r : -EINVAL, "nodes file");
    return nodesfile_parse(mst_buf_text(&text), path, ret_file, err);
}

void nodesfile_release(struct nodesfile *file)
{
    for (size_t i = 0; i < file->count; i++) {
        free(file->items[i].hostname);
        free(file->items[i].host);
    }
    free(file->items);
    *file = (struct nodesfile){0};
}

const char *nodesfile_host(const struct nodesfile *file, const char *hostname)
{
    for (size_t i = 0; i < file->count; i++) {
        if (strcmp(file->items[i].hostname, hostname) == 0)
            return file->items[i].host;
    }
    return NULL;
}
