/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ICU data library without data, for the image. Debian's libxml2 links ICU for exotic text encodings, and
 * ICU's tables are 31 MB, a third of all that the programs need. libxml2 knows UTF-8, UTF-16, ISO-8859-1 and
 * ASCII by itself, and nmap's files are UTF-8; with this stub any other encoding is refused as unknown.
 *
 * The layout is that of ICU's common data file (unicode/udata.h: UDataInfo; "CmnD" with an offset table,
 * version 1): a header, then the number of entries, which is 0. The build gives the symbol's name, which
 * carries ICU's version.
 */
#include <stdint.h>

struct stub {
    uint16_t header_bytes;
    uint8_t magic[2];
    uint16_t info_bytes, reserved_word;
    uint8_t is_big_endian, charset_family, uchar_bytes, reserved_byte;
    uint8_t format[4], format_version[4], data_version[4];
    uint8_t padding[8]; /* the header is a multiple of 16 bytes */
    uint32_t entries, unused[3];
};

extern const struct stub MUSTER_ICU_SYMBOL;
const struct stub MUSTER_ICU_SYMBOL __attribute__((aligned(16))) = {
    .header_bytes = 32,
    .magic = {0xda, 0x27},
    .info_bytes = 20,
    .is_big_endian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__,
    .uchar_bytes = 2,
    .format = {'C', 'm', 'n', 'D'},
    .format_version = {1, 0, 0, 0},
};
