/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/bf16.h"
#include "helpers.h"

#include <math.h>

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint16_t pack_one(uint32_t bits)
{
    const float x = float_of(bits);
    uint16_t y;

    bf16_pack(1, &x, &y);
    return y;
}

static void rounds_to_the_nearest_and_ties_to_even(void **state)
{
    (void)state;
    static const struct {
        uint32_t bits;
        uint16_t packed;
    } cases[] = {
        {0x00000000, 0x0000}, {0x80000000, 0x8000},                       /* both zeros */
        {0x3f800000, 0x3f80}, {0x3f807fff, 0x3f80}, {0x3f808001, 0x3f81}, /* below and above the middle */
        {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82},                       /* ties: down and up to even */
        {0xbf808000, 0xbf80}, {0xbf818000, 0xbf82}, {0x3fffffff, 0x4000}, /* carries into the exponent */
        {0x00000001, 0x0000}, {0x00008001, 0x0001},                       /* denormal numbers */
        {0x7f7fffff, 0x7f80}, {0xff7fffff, 0xff80},                       /* beyond the largest: infinite */
        {0x7f7f7fff, 0x7f7f},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(pack_one(cases[i].bits), cases[i].packed);
}

static void infinities_stay_and_every_nan_stays_one(void **state)
{
    (void)state;
    static const uint32_t nans[] = {0x7fc00000, 0x7f800001, 0x7fffffff, 0xff800001, 0xffffffff, 0x7f80ffff};

    assert_int_equal(pack_one(0x7f800000), 0x7f80);
    assert_int_equal(pack_one(0xff800000), 0xff80);
    for (size_t i = 0; i < sizeof nans / sizeof nans[0]; i++) {
        float x = float_of(nans[i]), y;
        const uint16_t packed = pack_one(nans[i]);
        bf16_unpack(1, &packed, &y);
        assert_true(isnan(y));
        assert_int_equal(signbit(y) != 0, nans[i] >> 31);
        bf16_round(1, &x);
        assert_true(isnan(x));
    }
}

/* Against rounding in double, over all exponents and many fractions. */
static void is_never_further_than_half_a_place_away_and_rounding_is_packing(void **state)
{
    (void)state;
    enum { COUNT = 4099 };
    float x[COUNT], rounded[COUNT], unpacked[COUNT];
    uint16_t packed[COUNT];
    uint32_t random = 1;

    for (int pass = 0; pass < 50; pass++) {
        for (size_t i = 0; i < COUNT; i++) {
            random = random * 1664525u + 1013904223u;
            x[i] = float_of((random & 0x80ffffff) | (random >> 8) % 254 << 23);
        }
        memcpy(rounded, x, sizeof x);
        bf16_round(COUNT, rounded);
        bf16_pack(COUNT, x, packed);
        bf16_unpack(COUNT, packed, unpacked);
        assert_memory_equal(rounded, unpacked, sizeof rounded);
        for (size_t i = 0; i < COUNT; i++) {
            const double place = ldexp(1.0, (x[i] == 0 ? -126 : ilogb((double)x[i])) - 7);
            assert_true(fabs((double)rounded[i] - (double)x[i]) <= fmax(place, ldexp(1.0, -133)) / 2);
        }
        bf16_round(COUNT, rounded); /* once more changes nothing */
        assert_memory_equal(rounded, unpacked, sizeof rounded);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_to_the_nearest_and_ties_to_even),
        cmocka_unit_test(infinities_stay_and_every_nan_stays_one),
        cmocka_unit_test(is_never_further_than_half_a_place_away_and_rounding_is_packing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
