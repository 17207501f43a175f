/* dw[o, c, k] = sum over n, p of g[n, o, p] * x[n, c, p * stride - padding + k * dilation]: the
 * gradient of a convolution's weight. One item: one tap of one input channel, OB output channels.
 */
KERNEL conv_weight(PK_IDS GLOBAL const T *g, i64 og, GLOBAL const T *x, i64 ox, GLOBAL T_OUT *dw,
                   i64 odw, i64 groups, i64 cin, i64 cout, i64 x0, i64 x1, i64 x2, i64 k0, i64 k1,
                   i64 k2, i64 y0, i64 y1, i64 y2, i64 s0, i64 s1, i64 s2, i64 p0, i64 p1, i64 p2,
                   i64 d0, i64 d1, i64 d2, i64 blocks, i64 images) {
    const i64 window = k0 * k1 * k2, c = GID(0) / window, tap = GID(0) % window;
    const i64 block = GID(1) % blocks, group = GID(1) / blocks, first = block * OB;
    if (c >= cin) return;
    const i64 a = tap / (k1 * k2) * d0 - p0, b = tap / k2 % k1 * d1 - p1, k = tap % k2 * d2 - p2;
    const i64 plane = y0 * y1 * y2;
    ACC acc[OB];
    UNROLL
    for (i32 j = 0; j < OB; j++) acc[j] = 0;
    for (i64 image = 0; image < images; image++) {
        GLOBAL const T *from = g + og + ((image * groups + group) * cout + first) * plane;
        GLOBAL const T *seen = x + ox + ((image * groups + group) * cin + c) * x0 * x1 * x2;
        ACC part[OB]; /* one image's: two levels bound the rounding error */
        UNROLL
        for (i32 j = 0; j < OB; j++) part[j] = 0;
        for (i64 c0 = 0; c0 < y0; c0++) {
            const i64 i0 = c0 * s0 + a;
            if (i0 < 0 || i0 >= x0) continue;
            for (i64 c1 = 0; c1 < y1; c1++) {
                const i64 i1 = c1 * s1 + b;
                if (i1 < 0 || i1 >= x1) continue;
                for (i64 c2 = 0; c2 < y2; c2++) {
                    const i64 i2 = c2 * s2 + k;
                    if (i2 < 0 || i2 >= x2) continue;
                    const ACC value = LOAD(seen[(i0 * x1 + i1) * x2 + i2]);
                    UNROLL
                    for (i32 j = 0; j < OB; j++)
                        part[j] = MADD(value, LOAD(from[pk_least(j, cout - 1 - first) * plane + (c0 * y1 + c1) * y2 + c2]), part[j]);
                }
            }
        }
        UNROLL
        for (i32 j = 0; j < OB; j++) acc[j] += part[j];
    }
    dw += odw + ((group * cout + first) * cin + c) * window + tap;
    UNROLL
    for (i32 j = 0; j < OB; j++)
        if (first + j < cout) dw[j * cin * window] = STORE(acc[j]);
}
