#pragma once
/* The pk_ functions that the templates of scalar_ops.py call, in C11. */
#include <complex.h>
#undef complex /* it would rename pk_complex_* */
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef float _Complex hl_c64;
typedef double _Complex hl_c128;

/* u8 is computed in uint32_t because C would promote it to a signed int and shift that. */
#define T uint8_t
#define U uint32_t
#define S u8
#define SIGNED 0
#include "scalar_int_typed.h"
#define T int32_t
#define U uint32_t
#define S i32
#define SIGNED 1
#include "scalar_int_typed.h"
#define T int64_t
#define U uint64_t
#define S i64
#define SIGNED 1
#include "scalar_int_typed.h"

#define T uint64_t
#define U uint64_t
#define S u64
#define SIGNED 0
#include "scalar_int_typed.h"

#ifdef __FMA__
#define HL_FMA(a, b, c) __builtin_fma(a, b, c)
#define HL_FMAF(a, b, c) __builtin_fmaf(a, b, c)
#else
#define HL_FMA(a, b, c) ((a) * (b) + (c))
#define HL_FMAF(a, b, c) ((a) * (b) + (c))
#endif

static inline uint32_t hl_bits_f32(float x) {
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}
static inline float hl_f32_bits(uint32_t u) {
    float x;
    memcpy(&x, &u, 4);
    return x;
}
static inline uint64_t hl_bits_f64(double x) {
    uint64_t u;
    memcpy(&u, &x, 8);
    return u;
}
static inline double hl_f64_bits(uint64_t u) {
    double x;
    memcpy(&x, &u, 8);
    return x;
}

/* -- half precision, in integer arithmetic so that every instruction set vectorises it --------- */

/* The exponent is moved by a multiplication, which also normalises subnormals. */
static inline float hl_f16_to_f32(uint16_t h) {
    uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13;
    float scaled = hl_f32_bits(magnitude) * 0x1p112f;
    uint32_t bits = hl_bits_f32(scaled);
    bits |= magnitude >= 0x0f800000u ? 0x7f800000u : 0;
    return hl_f32_bits(bits | (uint32_t)(h & 0x8000) << 16);
}

/* Round to nearest, ties to even. A subnormal result is rounded by the addition of 0.5. */
static inline uint16_t hl_f32_to_f16(float x) {
    uint32_t u = hl_bits_f32(x), sign = u >> 16 & 0x8000, mag = u & 0x7fffffff;
    uint32_t normal = (mag - 0x38000000u + 0xfff + (mag >> 13 & 1)) >> 13;
    uint32_t subnormal = hl_bits_f32(hl_f32_bits(mag) + 0.5f) - 0x3f000000u;
    uint32_t special = mag > 0x7f800000u ? 0x7e00 : 0x7c00;
    uint32_t finite = mag < 0x38800000u ? subnormal : normal;
    return (uint16_t)(sign | (mag >= 0x47800000u ? special : finite));
}

/* Through a float rounded to odd, so that the second rounding is the only one that counts. */
static inline uint16_t hl_f64_to_f16(double x) {
    float f = (float)x;
    uint32_t bits = hl_bits_f32(f);
    double back = f;
    int grew = fabs(back) > fabs(x) && fabs(back) > 0;
    if (back != x && x == x) bits = (bits - (uint32_t)grew) | 1;
    return hl_f32_to_f16(hl_f32_bits(bits));
}

#include "narrow.h"

/* -- floating point ---------------------------------------------------------------------------- */
#define T float
#define S f32
#define F(name) name##f
#include "scalar_float_typed.h"
#define T double
#define S f64
#define F(name) name
#include "scalar_float_typed.h"

static inline double pk_exp_f64(double x) { return exp(x); }
static inline double pk_log_f64(double x) { return log(x); }
static inline double pk_log1p_f64(double x) { return log1p(x); }
static inline double pk_expm1_f64(double x) { return expm1(x); }
static inline double pk_tanh_f64(double x) { return tanh(x); }
static inline double pk_sin_f64(double x) { return sin(x); }
static inline double pk_cos_f64(double x) { return cos(x); }

#include "math_f32.h"

/* -- complex ----------------------------------------------------------------------------------- */
#define T hl_c64
#define R float
#define S c64
#define P f32
#define F(name) name##f
#include "scalar_complex_typed.h"
#define T hl_c128
#define R double
#define S c128
#define P f64
#define F(name) name
#include "scalar_complex_typed.h"
