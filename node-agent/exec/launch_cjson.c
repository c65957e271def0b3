/* SPDX-License-Identifier: Apache-2.0 */
/* For muster-launch: as much of cJSON as it needs, since Debian has that library in its shared form only. The
 * types and the meaning of each call are cJSON's (cjson/cJSON.h); tests/exec/ compares the two.
 *
 * Texts are UTF-8 and go through as they are; \u escapes become UTF-8. Numbers are doubles. */
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 1000 /* as cJSON's; common/json.c has its own, lower one */

/* ---- items ---- */

static cJSON *item_new(int type)
{
    cJSON *item = calloc(1, sizeof *item);
    if (item)
        item->type = type;
    return item;
}

void cJSON_Delete(cJSON *item)
{
    while (item) {
        cJSON *next = item->next;
        cJSON_Delete(item->child);
        free(item->valuestring);
        free(item->string);
        free(item);
        item = next;
    }
}

cJSON *cJSON_CreateObject(void)
{
    return item_new(cJSON_Object);
}

cJSON *cJSON_CreateArray(void)
{
    return item_new(cJSON_Array);
}

cJSON *cJSON_CreateString(const char *text)
{
    cJSON *item = item_new(cJSON_String);
    if (item)
        item->valuestring = strdup(text);
    if (item && item->valuestring)
        return item;
    cJSON_Delete(item);
    return NULL;
}

static void set_number(cJSON *item, double number)
{
    item->valuedouble = number;
    item->valueint = number >= INT32_MAX ? INT32_MAX : number <= INT32_MIN ? INT32_MIN : (int)number;
}

cJSON *cJSON_CreateNumber(double number)
{
    cJSON *item = item_new(cJSON_Number);
    if (item)
        set_number(item, number);
    return item;
}

cJSON *cJSON_CreateBool(cJSON_bool value)
{
    return item_new(value ? cJSON_True : cJSON_False);
}

/* In cJSON's list the first item's `prev` is the last one. */
static void append(cJSON *parent, cJSON *item)
{
    if (parent->child) {
        item->prev = parent->child->prev;
        item->prev->next = item;
    } else {
        parent->child = item;
    }
    parent->child->prev = item;
}

cJSON_bool cJSON_AddItemToArray(cJSON *array, cJSON *item)
{
    if (!array || !item || array == item)
        return 0;
    append(array, item);
    return 1;
}

cJSON_bool cJSON_AddItemToObject(cJSON *object, const char *key, cJSON *item)
{
    char *copy = object && key && item ? strdup(key) : NULL;
    if (!copy)
        return 0;
    free(item->string);
    item->string = copy;
    append(object, item);
    return 1;
}

static cJSON *add(cJSON *object, const char *key, cJSON *item)
{
    if (cJSON_AddItemToObject(object, key, item))
        return item;
    cJSON_Delete(item);
    return NULL;
}

cJSON *cJSON_AddStringToObject(cJSON *object, const char *key, const char *text)
{
    return add(object, key, cJSON_CreateString(text));
}

cJSON *cJSON_AddNumberToObject(cJSON *object, const char *key, double number)
{
    return add(object, key, cJSON_CreateNumber(number));
}

cJSON *cJSON_AddBoolToObject(cJSON *object, const char *key, cJSON_bool value)
{
    return add(object, key, cJSON_CreateBool(value));
}

cJSON *cJSON_AddArrayToObject(cJSON *object, const char *key)
{
    return add(object, key, cJSON_CreateArray());
}

cJSON *cJSON_AddObjectToObject(cJSON *object, const char *key)
{
    return add(object, key, cJSON_CreateObject());
}

/* ---- looking ---- */

static bool is(const cJSON *item, int types)
{
    return item && (item->type & 0xff & types) != 0;
}

cJSON_bool cJSON_IsObject(const cJSON *item)
{
    return is(item, cJSON_Object);
}

cJSON_bool cJSON_IsArray(const cJSON *item)
{
    return is(item, cJSON_Array);
}

cJSON_bool cJSON_IsString(const cJSON *item)
{
    return is(item, cJSON_String);
}

cJSON_bool cJSON_IsNumber(const cJSON *item)
{
    return is(item, cJSON_Number);
}

cJSON_bool cJSON_IsBool(const cJSON *item)
{
    return is(item, cJSON_True | cJSON_False);
}

cJSON_bool cJSON_IsTrue(const cJSON *item)
{
    return is(item, cJSON_True);
}

cJSON_bool cJSON_IsNull(const cJSON *item)
{
    return is(item, cJSON_NULL);
}

cJSON *cJSON_GetObjectItemCaseSensitive(const cJSON *object, const char *key)
{
    cJSON *item = object && key ? object->child : NULL;
    while (item && (!item->string || strcmp(item->string, key) != 0))
        item = item->next;
    return item;
}

int cJSON_GetArraySize(const cJSON *array)
{
    int count = 0;
    for (const cJSON *item = array ? array->child : NULL; item; item = item->next)
        count++;
    return count;
}

/* ---- reading ---- */

struct reader {
    const char *next, *end;
    size_t depth;
};

static cJSON *read_value(struct reader *reader);

static void skip_space(struct reader *reader)
{
    while (reader->next < reader->end && (unsigned char)*reader->next <= ' ')
        reader->next++;
}

static bool take(struct reader *reader, const char *word)
{
    const size_t length = strlen(word);
    if ((size_t)(reader->end - reader->next) < length || memcmp(reader->next, word, length) != 0)
        return false;
    reader->next += length;
    return true;
}

/* Four hex digits behind "\u"; -1. */
static int read_hex(struct reader *reader)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        const char c = reader->next < reader->end ? *reader->next : '\0';
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
        reader->next++;
    }
    return value;
}

static size_t put_utf8(char *to, long code)
{
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    const size_t count = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = count; i-- > 1; code >>= 6)
        to[i] = (char)(0x80 | (code & 0x3f));
    to[0] = (char)(first[count] | code);
    return count;
}

/* What stands behind a backslash; the bytes put, 0 for nonsense. */
static size_t read_escape(struct reader *reader, char *to)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    if (reader->next == reader->end)
        return 0;
    const char c = *reader->next++;
    const char *found = c != '\0' ? strchr(from, c) : NULL;
    if (found) {
        *to = into[found - from];
        return 1;
    }
    long code = c == 'u' ? read_hex(reader) : -1;
    if (code >= 0xd800 && code <= 0xdbff) { /* the first half of a pair */
        const int low = take(reader, "\\u") ? read_hex(reader) : -1;
        code = low >= 0xdc00 && low <= 0xdfff ? 0x10000 + ((code & 0x3ff) << 10 | (low & 0x3ff)) : -1;
    } else if (code >= 0xdc00 && code <= 0xdfff) {
        code = -1;
    }
    return code >= 0 ? put_utf8(to, code) : 0;
}

/* Behind its opening quote; NULL. */
static char *read_text(struct reader *reader)
{
    /* An escape is never shorter than what it stands for. */
    char *text = malloc((size_t)(reader->end - reader->next) + 1);
    size_t count = 0;
    while (text && reader->next < reader->end) {
        const char c = *reader->next++;
        size_t put = 1;
        if (c == '"') {
            text[count] = '\0';
            char *fitted = realloc(text, count + 1);
            return fitted ? fitted : text;
        }
        if (c == '\\')
            put = read_escape(reader, text + count);
        else
            text[count] = c;
        if (put == 0)
            break;
        count += put;
    }
    free(text);
    return NULL;
}

static cJSON *read_string(struct reader *reader)
{
    cJSON *item = item_new(cJSON_String);
    if (item)
        item->valuestring = read_text(reader);
    if (item && item->valuestring)
        return item;
    cJSON_Delete(item);
    return NULL;
}

static cJSON *read_number(struct reader *reader)
{
    char text[64];
    size_t count = 0;
    while (reader->next + count < reader->end && count < sizeof text - 1 &&
           strchr("0123456789+-.eE", reader->next[count]) && reader->next[count] != '\0') {
        text[count] = reader->next[count];
        count++;
    }
    text[count] = '\0';
    char *end;
    const double number = strtod(text, &end); /* the programs never leave the C locale */
    if (end == text)
        return NULL;
    reader->next += end - text;
    return cJSON_CreateNumber(number);
}

/* Behind '{' or '['. */
static cJSON *read_items(struct reader *reader, int type)
{
    const char *close = type == cJSON_Object ? "}" : "]";
    cJSON *parent = item_new(type);
    bool good = parent && ++reader->depth <= DEPTH_MAX;
    skip_space(reader);
    if (good && take(reader, close)) {
        reader->depth--;
        return parent;
    }
    while (good) {
        char *key = NULL;
        skip_space(reader);
        if (type == cJSON_Object) {
            key = take(reader, "\"") ? read_text(reader) : NULL;
            skip_space(reader);
            good = key && take(reader, ":");
        }
        cJSON *item = good ? read_value(reader) : NULL;
        good = item != NULL;
        if (good) {
            item->string = key;
            append(parent, item);
        } else {
            free(key);
        }
        skip_space(reader);
        if (good && take(reader, close)) {
            reader->depth--;
            return parent;
        }
        good = good && take(reader, ",");
    }
    cJSON_Delete(parent);
    return NULL;
}

static cJSON *read_value(struct reader *reader)
{
    skip_space(reader);
    if (take(reader, "null"))
        return item_new(cJSON_NULL);
    if (take(reader, "true"))
        return item_new(cJSON_True);
    if (take(reader, "false"))
        return item_new(cJSON_False);
    if (take(reader, "\""))
        return read_string(reader);
    if (take(reader, "{"))
        return read_items(reader, cJSON_Object);
    if (take(reader, "["))
        return read_items(reader, cJSON_Array);
    const char c = reader->next < reader->end ? *reader->next : '\0';
    return c == '-' || (c >= '0' && c <= '9') ? read_number(reader) : NULL;
}

cJSON *cJSON_ParseWithLengthOpts(const char *text, size_t bytes, const char **ret_end, cJSON_bool whole)
{
    struct reader reader = {text, text + bytes, 0};
    (void)take(&reader, "\xef\xbb\xbf"); /* a byte order mark */
    cJSON *json = read_value(&reader);
    if (json && whole) {
        skip_space(&reader);
        if (reader.next != reader.end) {
            cJSON_Delete(json);
            json = NULL;
        }
    }
    if (ret_end)
        *ret_end = reader.next < reader.end || json ? reader.next : reader.end;
    return json;
}
