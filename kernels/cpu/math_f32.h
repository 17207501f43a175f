#pragma once
/* Single-precision functions without branches, so that the loops around them vectorise.
 * Polynomials of exp, log and tanh: Cephes (S. Moshier), single/expf.c, logf.c, tanhf.c. */

#define HL_ROUND_F32 0x1.8p23f /* adding it rounds a small float to an integer */
#define HL_ROUND_F64 0x1.8p52

static inline float hl_scale_f32(int32_t exponent) {
    return hl_f32_bits(((uint32_t)exponent + 127) << 23);
}

/* The power of two is applied in halves: e**x reaches subnormals and the overflow rounds to inf. */
static inline float pk_exp_f32(float x) {
    float c = x > 89.0f ? 89.0f : x;
    c = c < -104.5f ? -104.5f : c;
    float shifted = c * 1.44269504f + HL_ROUND_F32, n = shifted - HL_ROUND_F32;
    float r = HL_FMAF(n, -0.693145751953125f, c);
    r = HL_FMAF(n, -1.42860677e-6f, r);
    float p = HL_FMAF(1.9875691500e-4f, r, 1.3981999507e-3f);
    p = HL_FMAF(p, r, 8.3334519073e-3f);
    p = HL_FMAF(p, r, 4.1665795894e-2f);
    p = HL_FMAF(p, r, 1.6666665459e-1f);
    p = HL_FMAF(p, r, 5.0000001201e-1f);
    float y = HL_FMAF(p, r * r, r) + 1.0f;
    int32_t k = (int32_t)(hl_bits_f32(shifted) - 0x4b400000u); /* n, read from the low bits */
    return y * hl_scale_f32(k >> 1) * hl_scale_f32(k - (k >> 1));
}

static inline float pk_log_f32(float x) {
    int tiny = x < 0x1p-126f;
    uint32_t bits = hl_bits_f32(tiny ? x * 0x1p23f : x);
    float e = (float)((int32_t)(bits >> 23) - 126 - (tiny ? 23 : 0));
    float m = hl_f32_bits((bits & 0x7fffff) | 0x3f000000);
    int low = m < 0.707106781f;
    e = low ? e - 1.0f : e;
    m = (low ? m + m : m) - 1.0f;
    float z = m * m;
    float p = HL_FMAF(7.0376836292e-2f, m, -1.1514610310e-1f);
    p = HL_FMAF(p, m, 1.1676998740e-1f);
    p = HL_FMAF(p, m, -1.2420140846e-1f);
    p = HL_FMAF(p, m, 1.4249322787e-1f);
    p = HL_FMAF(p, m, -1.6668057665e-1f);
    p = HL_FMAF(p, m, 2.0000714765e-1f);
    p = HL_FMAF(p, m, -2.4999993993e-1f);
    p = HL_FMAF(p, m, 3.3333331174e-1f);
    float y = HL_FMAF(e, -2.12194440e-4f, p * m * z);
    y = HL_FMAF(z, -0.5f, y);
    float r = HL_FMAF(e, 0.693359375f, m + y);
    r = x < INFINITY ? r : x; /* inf and NaN */
    r = x == 0 ? -INFINITY : r;
    return x < 0 ? NAN : r;
}

static inline float pk_tanh_f32(float x) {
    float a = fabsf(x), z = x * x;
    float p = HL_FMAF(-5.70498872745e-3f, z, 2.06390887954e-2f);
    p = HL_FMAF(p, z, -5.37397155531e-2f);
    p = HL_FMAF(p, z, 1.33314422036e-1f);
    p = HL_FMAF(p, z, -3.33332819422e-1f);
    float small = HL_FMAF(p * z, x, x);
    float large = copysignf(1.0f - 2.0f / (pk_exp_f32(a + a) + 1.0f), x);
    large = x == x ? large : x;
    return a < 0.625f ? small : large;
}

/* expm1 and log1p go through double, where no trick is needed to keep the small digits. */
static inline float pk_expm1_f32(float x) {
    double c = x > 89.0f ? 89.0f : x;
    c = c < -104.0 ? -104.0 : c;
    double shifted = c * 1.4426950408889634 + HL_ROUND_F64, n = shifted - HL_ROUND_F64;
    double r = HL_FMA(n, -0.6931471805599453, c);
    double p = HL_FMA(1.0 / 40320, r, 1.0 / 5040);
    p = HL_FMA(p, r, 1.0 / 720);
    p = HL_FMA(p, r, 1.0 / 120);
    p = HL_FMA(p, r, 1.0 / 24);
    p = HL_FMA(p, r, 1.0 / 6);
    p = HL_FMA(p, r, 0.5);
    double q = HL_FMA(p, r * r, r);
    /* the low bits of shifted are n: moved into the exponent, they make 2**n */
    double s = hl_f64_bits((hl_bits_f64(shifted) + 1023) << 52);
    return (float)(n == 0 ? q : HL_FMA(s, q, s - 1.0));
}

static inline float pk_log1p_f32(float x) {
    double u = 1.0 + (double)x;
    uint64_t bits = hl_bits_f64(u);
    uint64_t shifted = bits - 0x3fe6a09e667f3bcdull; /* sqrt(1/2) */
    double n = (double)(int32_t)((int64_t)shifted >> 52);
    double m = hl_f64_bits((shifted & 0xfffffffffffffull) + 0x3fe6a09e667f3bcdull);
    double f = n == 0 ? (double)x : m - 1.0;
    double s = f / (2.0 + f), z = s * s;
    double p = HL_FMA(2.0 / 13, z, 2.0 / 11);
    p = HL_FMA(p, z, 2.0 / 9);
    p = HL_FMA(p, z, 2.0 / 7);
    p = HL_FMA(p, z, 2.0 / 5);
    p = HL_FMA(p, z, 2.0 / 3);
    p = HL_FMA(p, z, 2.0);
    double r = HL_FMA(n, 0.6931471805599453, p * s);
    float y = x == 0 ? x : (float)r; /* keeps -0 */
    y = x < INFINITY ? y : x;
    y = x == -1.0f ? -INFINITY : y;
    return x < -1.0f ? NAN : y;
}

/* Below this the quadrant fits the rounding trick and two terms of pi / 2 are exact enough. */
#define HL_TRIG_LIMIT 1e6f

/* sin(x + quadrant * pi / 2), in double; Taylor terms are enough on [-pi/4, pi/4] for a float. */
static inline float hl_trig_f32(float x, int quadrant) {
    double c = x;
    double shifted = c * 0.6366197723675814 + HL_ROUND_F64, n = shifted - HL_ROUND_F64;
    double r = HL_FMA(n, -1.5707963267341256, c);
    r = HL_FMA(n, -6.0771005065061922e-11, r);
    double z = r * r;
    double s = HL_FMA(2.7557319223985893e-06, z, -1.9841269841269841e-04);
    s = HL_FMA(s, z, 8.3333333333333332e-03);
    s = HL_FMA(s, z, -1.6666666666666666e-01);
    s = HL_FMA(s * z, r, r);
    double k = HL_FMA(-2.7557319223985888e-07, z, 2.4801587301587302e-05);
    k = HL_FMA(k, z, -1.3888888888888889e-03);
    k = HL_FMA(k, z, 4.1666666666666664e-02);
    k = HL_FMA(k, z, -0.5);
    k = HL_FMA(k, z, 1.0);
    uint64_t q = hl_bits_f64(shifted) + (uint64_t)quadrant;
    double y = q & 1 ? k : s;
    return (float)hl_f64_bits(hl_bits_f64(y) ^ (q & 2) << 62);
}

static inline float pk_sin_f32(float x) { return hl_trig_f32(x, 0); }
static inline float pk_cos_f32(float x) { return hl_trig_f32(x, 1); }
