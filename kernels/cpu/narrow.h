#pragma once
/* bfloat16 and float8: float32 with fewer bits, rounded to nearest, ties to even.
 * (float8: OCP 8-bit Floating Point Specification, revision 1.0.) */

static inline float hl_bf16_to_f32(uint16_t h) { return hl_f32_bits((uint32_t)h << 16); }

static inline uint16_t hl_f32_to_bf16(float x) {
    uint32_t u = hl_bits_f32(x);
    uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (uint16_t)(x != x ? (u >> 16 & 0x8000) | 0x7fc0 : rounded);
}

/* The magnitude of x with `mantissa` bits below an exponent biased by `bias`; may exceed the type.
 * A subnormal is rounded by adding a number whose last place is the smallest subnormal. */
static inline uint32_t hl_narrowed(uint32_t magnitude, int mantissa, int bias) {
    int shift = 23 - mantissa;
    uint32_t rebased = magnitude - ((uint32_t)(127 - bias) << 23);
    uint32_t normal = (rebased + (1u << (shift - 1)) - 1 + (rebased >> shift & 1)) >> shift;
    uint32_t step = (uint32_t)(127 + 24 - bias - mantissa) << 23;
    uint32_t subnormal = hl_bits_f32(hl_f32_bits(magnitude) + hl_f32_bits(step)) - step;
    return magnitude < (uint32_t)(128 - bias) << 23 ? subnormal : normal;
}

static inline uint8_t hl_f32_to_f8e5m2(float x) {
    uint32_t u = hl_bits_f32(x), magnitude = u & 0x7fffffff;
    uint32_t bits = magnitude > 0x7f800000u ? 0x7e : 0x7c;
    if (magnitude < 0x7f800000u) {
        bits = hl_narrowed(magnitude, 2, 15);
        bits = bits > 0x7c ? 0x7c : bits;
    }
    return (uint8_t)(u >> 24 & 0x80) | (uint8_t)bits;
}
static inline float hl_f8e5m2_to_f32(uint8_t b) { return hl_f16_to_f32((uint16_t)(b << 8)); }

/* Without infinities: what exceeds 448 becomes NaN. */
static inline uint8_t hl_f32_to_f8e4m3(float x) {
    uint32_t u = hl_bits_f32(x), magnitude = u & 0x7fffffff, bits = 0x7f;
    if (magnitude < 0x7f800000u) {
        bits = hl_narrowed(magnitude, 3, 7);
        bits = bits > 0x7e ? 0x7f : bits;
    }
    return (uint8_t)(u >> 24 & 0x80) | (uint8_t)bits;
}
static inline float hl_f8e4m3_to_f32(uint8_t b) {
    uint32_t magnitude = (uint32_t)(b & 0x7f) << 20;
    float scaled = hl_f32_bits(magnitude) * 0x1p120f;
    uint32_t bits = (b & 0x7f) == 0x7f ? 0x7fc00000u : hl_bits_f32(scaled);
    return hl_f32_bits(bits | (uint32_t)(b & 0x80) << 24);
}
