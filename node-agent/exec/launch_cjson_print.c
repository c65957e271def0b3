/* SPDX-License-Identifier: Apache-2.0 */
/* The printing half of launch_cjson.c. Numbers get 15 digits where these give the same number but for the
 * last bit, else 17. */
#include <cjson/cJSON.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct writer {
    char *text;
    size_t count, capacity;
    bool broken, pretty;
};

static void put(struct writer *writer, const char *bytes, size_t count)
{
    if (writer->count + count + 1 > writer->capacity) {
        const size_t capacity = 2 * (writer->count + count) + 256;
        char *text = writer->broken ? NULL : realloc(writer->text, capacity);
        if (!text) {
            writer->broken = true;
            return;
        }
        writer->text = text;
        writer->capacity = capacity;
    }
    memcpy(writer->text + writer->count, bytes, count);
    writer->count += count;
    writer->text[writer->count] = '\0';
}

static void put_word(struct writer *writer, const char *word)
{
    put(writer, word, strlen(word));
}

static void put_text(struct writer *writer, const char *text)
{
    put_word(writer, "\"");
    for (; *text; text++) {
        static const char from[] = "\"\\\b\f\n\r\t", into[] = "\"\\bfnrt";
        const char *found = strchr(from, *text);
        char escape[8];
        if (found) {
            (void)snprintf(escape, sizeof escape, "\\%c", into[found - from]);
            put_word(writer, escape);
        } else if ((unsigned char)*text < ' ') {
            (void)snprintf(escape, sizeof escape, "\\u%04x", (unsigned char)*text);
            put_word(writer, escape);
        } else {
            put(writer, text, 1);
        }
    }
    put_word(writer, "\"");
}

static void put_number(struct writer *writer, const cJSON *item)
{
    char text[40];
    const double number = item->valuedouble;
    if (!isfinite(number)) {
        put_word(writer, "null");
        return;
    }
    (void)snprintf(text, sizeof text, "%1.15g", number);
    const double again = strtod(text, NULL);
    if (fabs(again - number) > fmax(fabs(again), fabs(number)) * DBL_EPSILON)
        (void)snprintf(text, sizeof text, "%1.17g", number);
    put_word(writer, text);
}

static void indent(struct writer *writer, size_t depth)
{
    for (size_t i = 0; i < depth; i++)
        put_word(writer, "\t");
}

static void put_value(struct writer *writer, const cJSON *item, size_t depth);

static void put_object(struct writer *writer, const cJSON *object, size_t depth)
{
    put_word(writer, writer->pretty ? "{\n" : "{");
    for (const cJSON *item = object->child; item; item = item->next) {
        if (writer->pretty)
            indent(writer, depth + 1);
        put_text(writer, item->string ? item->string : "");
        put_word(writer, writer->pretty ? ":\t" : ":");
        put_value(writer, item, depth + 1);
        if (item->next)
            put_word(writer, ",");
        if (writer->pretty)
            put_word(writer, "\n");
    }
    if (writer->pretty)
        indent(writer, depth);
    put_word(writer, "}");
}

static void put_array(struct writer *writer, const cJSON *array, size_t depth)
{
    put_word(writer, "[");
    for (const cJSON *item = array->child; item; item = item->next) {
        put_value(writer, item, depth + 1);
        if (item->next)
            put_word(writer, writer->pretty ? ", " : ",");
    }
    put_word(writer, "]");
}

static void put_value(struct writer *writer, const cJSON *item, size_t depth)
{
    switch (item->type & 0xff) {
    case cJSON_Object:
        put_object(writer, item, depth);
        break;
    case cJSON_Array:
        put_array(writer, item, depth);
        break;
    case cJSON_String:
        put_text(writer, item->valuestring);
        break;
    case cJSON_Number:
        put_number(writer, item);
        break;
    case cJSON_True:
        put_word(writer, "true");
        break;
    case cJSON_False:
        put_word(writer, "false");
        break;
    default:
        put_word(writer, "null");
    }
}

static char *print(const cJSON *item, bool pretty)
{
    struct writer writer = {.pretty = pretty};
    if (item)
        put_value(&writer, item, 0);
    if (item && !writer.broken)
        return writer.text;
    free(writer.text);
    return NULL;
}

char *cJSON_Print(const cJSON *item)
{
    return print(item, true);
}

char *cJSON_PrintUnformatted(const cJSON *item)
{
    return print(item, false);
}
