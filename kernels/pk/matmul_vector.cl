/* One work-item: MR rows by NV vectors of W columns of y, accumulated in registers over all of K.
 * B comes packed in panels of NB = NV * W columns. For CPU devices of OpenCL only: VEC is a
 * vector type. STEP(stride) is 1 where A is contiguous along K.
 */
KERNEL matmul(PK_IDS GLOBAL const T *a, i64 oa, GLOBAL const ACC *packed, i64 opacked,
              GLOBAL T_OUT *y, i64 oy, i64 m, i64 n, i64 k, i64 stride_m, i64 stride_k,
              i64 rows_per_item, i64 panels_per_batch, i64 e1, i64 e2, i64 a0,
              i64 a1, i64 a2) {
    const i64 panel = GID(1), batch = GID(2), column = panel * NB;
    const i64 stop = pk_least(m, GID(0) * rows_per_item + rows_per_item);
    GLOBAL const ACC *b = packed + opacked + (batch * panels_per_batch + panel) * k * NB;
    a += oa + pk_batch(batch, e1, e2, a0, a1, a2);
    y += oy + batch * m * n + column;
    const i64 width = pk_least(NB, n - column);
    for (i64 row = GID(0) * rows_per_item; row < stop; row += MR) {
        VEC acc[MR][NV];
        i64 at[MR];
        UNROLL
        for (i32 i = 0; i < MR; i++) {
            at[i] = pk_least(row + i, m - 1) * stride_m; /* rows past the end repeat the last */
            UNROLL
            for (i32 j = 0; j < NV; j++) acc[i][j] = (VEC)(0);
        }
        _Pragma("unroll 4")
        for (i64 p = 0; p < k; p++) {
            VEC line[NV];
            UNROLL
            for (i32 j = 0; j < NV; j++) line[j] = VLOAD(b + p * NB + j * W);
            UNROLL
            for (i32 i = 0; i < MR; i++) {
                const ACC value = LOAD(a[at[i] + p * STEP(stride_k)]);
                UNROLL
                for (i32 j = 0; j < NV; j++) acc[i][j] = VFMA((VEC)(value), line[j], acc[i][j]);
            }
        }
        UNROLL
        for (i32 i = 0; i < MR; i++) {
            if (row + i >= stop) break;
            GLOBAL T_OUT *to = y + (row + i) * n;
            ACC out[NB];
            UNROLL
            for (i32 j = 0; j < NV; j++) VSTORE(acc[i][j], out + j * W);
            for (i64 j = 0; j < width; j++) to[j] = STORE(out[j]);
        }
    }
}
