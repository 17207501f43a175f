/* One work-item per element of y: for small operands, vectors and thin matrices. DOT: both operands
 * are contiguous along K, which is then walked with LANES accumulators.
 */
KERNEL matmul(PK_IDS GLOBAL const T *a, i64 oa, GLOBAL const T *b, i64 ob, GLOBAL T_OUT *y, i64 oy,
              i64 m, i64 n, i64 k, i64 stride_m, i64 stride_ka, i64 stride_kb, i64 stride_n,
              i64 e1, i64 e2, i64 a0, i64 a1, i64 a2, i64 b0, i64 b1, i64 b2) {
    const i64 item = GID(0), batch = GID(1);
    if (item >= m * n) return;
    const i64 row = item / n, column = item - row * n;
    a += oa + pk_batch(batch, e1, e2, a0, a1, a2) + row * stride_m;
    b += ob + pk_batch(batch, e1, e2, b0, b1, b2) + column * stride_n;
    ACC total = 0;
    i64 p = 0;
#ifdef LANES
    ACC lane[LANES];
    for (i32 j = 0; j < LANES; j++) lane[j] = 0;
    for (; p + LANES <= k; p += LANES) {
        UNROLL
        for (i32 j = 0; j < LANES; j++) lane[j] += LOAD(a[p + j]) * LOAD(b[p + j]);
    }
    for (i32 j = 0; j < LANES; j++) total += lane[j];
#endif
    for (; p < k; p++) total += LOAD(a[p * stride_ka]) * LOAD(b[p * stride_kb]);
    y[oy + batch * m * n + item] = STORE(total);
}
