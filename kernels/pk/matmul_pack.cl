/* B[K, N] with any strides → panels [N / NB][K][NB] of ACC, the last one padded with zeros. */
KERNEL pack(PK_IDS GLOBAL const T *b, i64 ob, GLOBAL ACC *packed, i64 opacked, i64 n, i64 k,
            i64 stride_k, i64 stride_n, i64 panels, i64 rows_per_item, i64 e1, i64 e2, i64 b0,
            i64 b1, i64 b2) {
    const i64 panel = GID(1), batch = GID(2), first = GID(0) * rows_per_item;
    const i64 last = pk_least(k, first + rows_per_item), column = panel * NB;
    const i64 width = pk_least(NB, n - column);
    GLOBAL ACC *to = packed + opacked + (batch * panels + panel) * k * NB;
    b += ob + pk_batch(batch, e1, e2, b0, b1, b2) + column * stride_n;
    for (i64 r = first; r < last; r++) {
        INDEPENDENT
        for (i64 j = 0; j < width; j++) to[r * NB + j] = LOAD(b[r * stride_k + j * STEP(stride_n)]);
        for (i64 j = width; j < NB; j++) to[r * NB + j] = 0;
    }
}
