/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for libFuzzer: calls the entry with seeded random inputs. fuzz_NAME_seeded [ROUNDS [SEED]] */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_INPUT_BYTES 2048

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static uint64_t next_random(uint64_t *random)
{
    *random = *random * 6364136223846793005ULL + 1442695040888963407ULL;
    return *random >> 33;
}

int main(int argc, char **argv)
{
    const unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 20000;
    uint64_t random = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
    for (unsigned long round = 0; round < rounds; round++) {
        const size_t count = next_random(&random) % MAX_INPUT_BYTES;
        uint8_t *bytes = malloc(count + 1); /* a block of its own, so that the sanitizer knows its end */
        if (!bytes)
            return 1;
        for (size_t i = 0; i < count; i++) {
            /* Random text rarely passes a check: most bytes are zero or small. */
            const uint64_t word = next_random(&random);
            bytes[i] = word % 4 == 0 ? (uint8_t)(word >> 8) : (uint8_t)(word % 4 - 1);
        }
        (void)LLVMFuzzerTestOneInput(bytes, count);
        free(bytes);
    }
    (void)printf("%lu inputs\n", rounds);
    return 0;
}
