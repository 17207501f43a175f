/* bfloat16 and float8 (OCP 8-bit Floating Point Specification, revision 1.0): float32 with fewer
 * bits, rounded to nearest, ties to even.
 */
DEVFN f32 pk_bf16_to_f32(h16 v) { return pk_from_bits_f32((u32)v << 16); }
DEVFN h16 pk_f32_to_bf16(f32 v) {
    const u32 u = pk_bits_f32(v);
    if (v != v) return (h16)((u >> 16 & 0x8000) | 0x7fc0);
    return (h16)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* The bits of |v| with `mantissa` bits below an exponent biased by `bias`; may exceed the type.
 * A subnormal is a whole number of the smallest step.
 */
DEVFN u32 pk_narrowed(u32 magnitude, i32 mantissa, i32 bias) {
    const i32 shift = 23 - mantissa;
    if (magnitude < (u32)(128 - bias) << 23) {
        const u32 step = (u32)(127 + 24 - bias - mantissa) << 23;
        return pk_bits_f32(pk_from_bits_f32(magnitude) + pk_from_bits_f32(step)) - step;
    }
    const u32 rebased = magnitude - ((u32)(127 - bias) << 23);
    return (rebased + (1u << (shift - 1)) - 1 + (rebased >> shift & 1)) >> shift;
}

DEVFN b8 pk_f32_to_f8e5m2(f32 v) {
    const u32 u = pk_bits_f32(v), magnitude = u & 0x7fffffff;
    u32 bits = magnitude > 0x7f800000u ? 0x7e : 0x7c;
    if (magnitude < 0x7f800000u) {
        bits = pk_narrowed(magnitude, 2, 15);
        if (bits > 0x7c) bits = 0x7c;
    }
    return (b8)((u >> 24 & 0x80) | bits);
}
DEVFN f32 pk_f8e5m2_to_f32(b8 v) { return pk_h2f((h16)((u32)v << 8)); }

/* Without infinities: what exceeds 448 becomes NaN. */
DEVFN b8 pk_f32_to_f8e4m3(f32 v) {
    const u32 u = pk_bits_f32(v), magnitude = u & 0x7fffffff;
    u32 bits = 0x7f;
    if (magnitude < 0x7f800000u) {
        bits = pk_narrowed(magnitude, 3, 7);
        if (bits > 0x7e) bits = 0x7f;
    }
    return (b8)((u >> 24 & 0x80) | bits);
}
DEVFN f32 pk_f8e4m3_to_f32(b8 v) {
    const u32 sign = (u32)(v & 0x80) << 24, exponent = v >> 3 & 15, fraction = v & 7;
    if ((v & 0x7f) == 0x7f) return pk_from_bits_f32(sign | 0x7fc00000u);
    const f32 size = exponent ? pk_from_bits_f32((exponent + 120) << 23 | fraction << 20)
                              : (f32)fraction * 0.001953125f;
    return sign ? -size : size;
}
