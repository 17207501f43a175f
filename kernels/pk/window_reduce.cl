/* Pooling: the maximum with its flat index, or the sum, of each window of x[planes, x0, x1, x2]. */
KERNEL window_reduce(PK_IDS GLOBAL const T *x, i64 ox, GLOBAL T_OUT *y, i64 oy, INDEX_OPERAND
                     i64 planes, i64 x0, i64 x1, i64 x2, i64 k0, i64 k1, i64 k2, i64 y0, i64 y1,
                     i64 y2, i64 s0, i64 s1, i64 s2, i64 p0, i64 p1, i64 p2, i64 d0, i64 d1,
                     i64 d2) {
    const i64 c2 = GID(0), c1 = GID(1) % y1, c0 = GID(1) / y1;
    if (c2 >= y2 || c0 >= y0) return;
    for (i64 plane = GID(2); plane < planes; plane += GSZ(2)) {
        GLOBAL const T *from = x + ox + plane * x0 * x1 * x2;
        ACC total = INIT;
        i64 index = -1;
        for (i64 a = 0; a < k0; a++) {
            const i64 i0 = c0 * s0 - p0 + a * d0;
            if (i0 < 0 || i0 >= x0) continue;
            for (i64 b = 0; b < k1; b++) {
                const i64 i1 = c1 * s1 - p1 + b * d1;
                if (i1 < 0 || i1 >= x1) continue;
                for (i64 c = 0; c < k2; c++) {
                    const i64 i2 = c2 * s2 - p2 + c * d2;
                    if (i2 < 0 || i2 >= x2) continue;
                    const i64 at = (i0 * x1 + i1) * x2 + i2;
                    const ACC value = LOAD(from[at]);
                    TAKE
                }
            }
        }
        const i64 to = (plane * y0 + c0) * y1 * y2 + c1 * y2 + c2;
        y[oy + to] = STORE(total);
        STORE_INDEX
    }
}
