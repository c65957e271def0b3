/* SPDX-License-Identifier: Apache-2.0 */
#include "http_private.h"
#include "muster/buf.h"
#include "muster/cleanup.h"

#include <string.h>
#include <zlib.h>

#define HTTP_BODY_MAX_BYTES ((size_t)512 << 20)
#define HTTP_COMPRESS_ABOVE 512

static void add_headers(const struct http *http, struct MHD_Response *response, const char *type)
{
    bool has_policy = false, has_options = false;
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    for (size_t i = 0; i < http->config.header_count; i++) {
        const struct web_header *header = &http->config.headers[i];
        has_policy = has_policy || strcmp(header->name, "Content-Security-Policy") == 0;
        has_options = has_options || strcmp(header->name, "X-Content-Type-Options") == 0;
        (void)MHD_add_response_header(response, header->name, header->value);
    }
    if (!has_policy) /* the page needs nothing from elsewhere, and nobody needs the page in a frame */
        (void)MHD_add_response_header(response, "Content-Security-Policy",
                                      "default-src 'self'; frame-ancestors 'none'; base-uri 'none'");
    if (!has_options)
        (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
}

enum MHD_Result http_say(const struct http *http, struct MHD_Connection *connection, unsigned status,
                         const char *text, const char *header, const char *value)
{
    union {
        const char *in;
        void *out;
    } both = {.in = text};
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), both.out, MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    add_headers(http, response, "text/plain; charset=utf-8");
    if (header)
        (void)MHD_add_response_header(response, header, value);
    const enum MHD_Result r = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return r;
}

/* gzip at its fastest: the page is scraped over and over, and shrinks to a twentieth anyway. */
static int compress_body(const void *bytes, size_t count, struct mst_buf *ret_body)
{
    z_stream stream = {0};
    if (count > UINT32_MAX || deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return -ENOMEM;
    int r = mst_buf_reserve(ret_body, deflateBound(&stream, (uLong)count));
    if (r == 0) {
        union {
            const void *in;
            unsigned char *out;
        } both = {.in = bytes}; /* zlib only reads it */
        stream.next_in = both.out;
        stream.avail_in = (uInt)count;
        stream.next_out = (unsigned char *)ret_body->bytes;
        stream.avail_out = (uInt)deflateBound(&stream, (uLong)count);
        r = deflate(&stream, Z_FINISH) == Z_STREAM_END ? 0 : -EIO;
        ret_body->count = stream.total_out;
    }
    (void)deflateEnd(&stream);
    return r;
}

struct MHD_Response *http_response(const struct http *http, const char *type, const void *bytes, size_t count,
                                   bool takes_gzip)
{
    mst_cleanup(mst_buf_release) struct mst_buf packed = MST_BUF_INIT(HTTP_BODY_MAX_BYTES);
    const bool is_packed =
        takes_gzip && count > HTTP_COMPRESS_ABOVE && compress_body(bytes, count, &packed) == 0;
    union {
        const void *in;
        void *out;
    } both = {.in = bytes};
    struct MHD_Response *response =
        is_packed ? MHD_create_response_from_buffer(packed.count, packed.bytes, MHD_RESPMEM_MUST_FREE)
                  : MHD_create_response_from_buffer(count, both.out, MHD_RESPMEM_MUST_COPY);
    if (!response)
        return NULL;
    if (is_packed) {
        packed = (struct mst_buf)MST_BUF_INIT(0); /* the response's now */
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
    }
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ACCEPT_ENCODING);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    add_headers(http, response, type);
    return response;
}

/* "gzip" among the words of Accept-Encoding, not with q=0. */
bool http_takes_gzip(struct MHD_Connection *connection)
{
    const char *at =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT_ENCODING);
    for (; at && *at; at += strcspn(at, ","), at += *at == ',') {
        at += strspn(at, " \t");
        const size_t bytes = strcspn(at, ",; \t");
        if ((bytes == 4 && strncasecmp(at, "gzip", 4) == 0) || (bytes == 1 && *at == '*')) {
            const char *quality = at + bytes + strspn(at + bytes, " \t;");
            return strncmp(quality, "q=0", 3) != 0 ||
                   strspn(quality + 3, ".0") < strcspn(quality + 3, ", \t");
        }
    }
    return false;
}
