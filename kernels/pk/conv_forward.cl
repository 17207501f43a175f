/* y[n, o, p] = sum over c, k of x[n, c, p * stride - padding + k * dilation] * w[o, c, k], in groups;
 * three spatial dimensions, the leading ones 1 where there are fewer. One item: one position,
 * OB output channels.
 */
KERNEL conv(PK_IDS GLOBAL const T *x, i64 ox, GLOBAL const T *w, i64 ow, GLOBAL T_OUT *y, i64 oy,
            i64 groups, i64 cin, i64 cout, i64 x0, i64 x1, i64 x2, i64 k0, i64 k1, i64 k2, i64 y0,
            i64 y1, i64 y2, i64 s0, i64 s1, i64 s2, i64 p0, i64 p1, i64 p2, i64 d0, i64 d1, i64 d2,
            i64 blocks, i64 images) {
    const i64 c2 = GID(0), c1 = GID(1) % y1, c0 = GID(1) / y1;
    const i64 window = k0 * k1 * k2, planes = images * groups * blocks;
    if (c2 >= y2 || c0 >= y0) return;
    for (i64 plane = GID(2); plane < planes; plane += GSZ(2)) {
        const i64 first = plane % blocks * OB, group = plane / blocks % groups;
        const i64 image = plane / (blocks * groups);
        ACC acc[OB];
        UNROLL
        for (i32 j = 0; j < OB; j++) acc[j] = 0;
        GLOBAL const T *seen = x + ox + (image * groups + group) * cin * x0 * x1 * x2;
        GLOBAL const T *taps = w + ow + group * cout * cin * window;
        for (i64 c = 0; c < cin; c++) {
            for (i64 a = 0; a < k0; a++) {
                const i64 i0 = c0 * s0 - p0 + a * d0;
                if (i0 < 0 || i0 >= x0) continue;
                for (i64 b = 0; b < k1; b++) {
                    const i64 i1 = c1 * s1 - p1 + b * d1;
                    if (i1 < 0 || i1 >= x1) continue;
                    GLOBAL const T *line = seen + ((c * x0 + i0) * x1 + i1) * x2;
                    GLOBAL const T *weight = taps + c * window + (a * k1 + b) * k2;
                    for (i64 k = 0; k < k2; k++) {
                        const i64 i2 = c2 * s2 - p2 + k * d2;
                        if (i2 < 0 || i2 >= x2) continue;
                        const ACC value = LOAD(line[i2]);
                        UNROLL
                        for (i32 j = 0; j < OB; j++)
                            acc[j] = MADD(value, LOAD(weight[pk_least(first + j, cout - 1) * cin * window + k]), acc[j]);
                    }
                }
            }
        }
        GLOBAL T_OUT *to = y + oy + ((image * groups + group) * cout + first) * y0 * y1 * y2 + (c0 * y1 + c1) * y2 + c2;
        UNROLL
        for (i32 j = 0; j < OB; j++)
            if (first + j < cout) to[j * y0 * y1 * y2] = STORE(acc[j]);
    }
}
