/* dx[n, c, i] = sum over o, k of g[n, o, p] * w[o, c, k] where p * stride = i + padding - k * dilation:
 * the gradient of a convolution's input, and the transposed convolution. One item: one position of
 * dx, OB of its channels. cin and cout count the channels of dx and g in a group.
 */
KERNEL conv_input(PK_IDS GLOBAL const T *g, i64 og, GLOBAL const T *w, i64 ow, GLOBAL T_OUT *dx,
                  i64 odx, i64 groups, i64 cin, i64 cout, i64 x0, i64 x1, i64 x2, i64 k0, i64 k1,
                  i64 k2, i64 y0, i64 y1, i64 y2, i64 s0, i64 s1, i64 s2, i64 p0, i64 p1, i64 p2,
                  i64 d0, i64 d1, i64 d2, i64 blocks, i64 images) {
    const i64 i2 = GID(0), i1 = GID(1) % x1, i0 = GID(1) / x1;
    const i64 window = k0 * k1 * k2, planes = images * groups * blocks;
    if (i2 >= x2 || i0 >= x0) return;
    for (i64 plane = GID(2); plane < planes; plane += GSZ(2)) {
        const i64 first = plane % blocks * OB, group = plane / blocks % groups;
        const i64 image = plane / (blocks * groups);
        ACC acc[OB];
        UNROLL
        for (i32 j = 0; j < OB; j++) acc[j] = 0;
        GLOBAL const T *seen = g + og + (image * groups + group) * cout * y0 * y1 * y2;
        GLOBAL const T *taps = w + ow + group * cout * cin * window;
        for (i64 a = 0; a < k0; a++) {
            const i64 t0 = i0 + p0 - a * d0, c0 = t0 / s0;
            if (t0 < 0 || c0 * s0 != t0 || c0 >= y0) continue;
            for (i64 b = 0; b < k1; b++) {
                const i64 t1 = i1 + p1 - b * d1, c1 = t1 / s1;
                if (t1 < 0 || c1 * s1 != t1 || c1 >= y1) continue;
                for (i64 k = 0; k < k2; k++) {
                    const i64 t2 = i2 + p2 - k * d2, c2 = t2 / s2;
                    if (t2 < 0 || c2 * s2 != t2 || c2 >= y2) continue;
                    const i64 tap = (a * k1 + b) * k2 + k, place = (c0 * y1 + c1) * y2 + c2;
                    for (i64 o = 0; o < cout; o++) {
                        const ACC value = LOAD(seen[o * y0 * y1 * y2 + place]);
                        UNROLL
                        for (i32 j = 0; j < OB; j++)
                            acc[j] = MADD(value, LOAD(taps[(o * cin + pk_least(first + j, cin - 1)) * window + tap]), acc[j]);
                    }
                }
            }
        }
        GLOBAL T_OUT *to = dx + odx + ((image * groups + group) * cin + first) * x0 * x1 * x2 + (i0 * x1 + i1) * x2 + i2;
        UNROLL
        for (i32 j = 0; j < OB; j++)
            if (first + j < cin) to[j * x0 * x1 * x2] = STORE(acc[j]);
    }
}
