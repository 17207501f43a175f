/* One group of 16 x 16 items: a 64 x 64 tile of y, 4 x 4 per item, operands through local memory in
 * slices of KT along K. Items load along the contiguous direction of each operand where it has one
 * (A_BY_K, B_BY_K), and rows are padded against bank conflicts.
 */
#define TILE 64
#define KT 16
#define PER 4

KERNEL matmul(PK_IDS GLOBAL const T *a, i64 oa, GLOBAL const T *b, i64 ob, GLOBAL T_OUT *y, i64 oy,
              i64 m, i64 n, i64 k, i64 stride_m, i64 stride_ka, i64 stride_kb, i64 stride_n,
              i64 e1, i64 e2, i64 a0, i64 a1, i64 a2, i64 b0, i64 b1, i64 b2) {
    LOCALMEM ACC left[KT][TILE + 1];
    LOCALMEM ACC right[KT][TILE + 1];
    const i64 me = LID(0), x = me % 16, z = me / 16;
    const i64 row = GRP(1) * TILE, column = GRP(0) * TILE, batch = GRP(2);
    a += oa + pk_batch(batch, e1, e2, a0, a1, a2);
    b += ob + pk_batch(batch, e1, e2, b0, b1, b2);
    ACC acc[PER][PER];
    UNROLL
    for (i32 i = 0; i < PER; i++) {
        UNROLL
        for (i32 j = 0; j < PER; j++) acc[i][j] = 0;
    }
    for (i64 p = 0; p < k; p += KT) {
        UNROLL
        for (i32 s = 0; s < TILE * KT / 256; s++) {
            const i64 e = me + s * 256;
            const i64 ka = A_BY_K ? e % KT : e / TILE, ra = A_BY_K ? e / KT : e % TILE;
            const i64 kb = B_BY_K ? e % KT : e / TILE, cb = B_BY_K ? e / KT : e % TILE;
            const i32 in_a = p + ka < k && row + ra < m, in_b = p + kb < k && column + cb < n;
            left[ka][ra] = in_a ? LOAD(a[(row + ra) * stride_m + (p + ka) * stride_ka]) : (ACC)0;
            right[kb][cb] = in_b ? LOAD(b[(p + kb) * stride_kb + (column + cb) * stride_n]) : (ACC)0;
        }
        BARRIER();
        UNROLL
        for (i32 q = 0; q < KT; q++) {
            ACC va[PER], vb[PER];
            UNROLL
            for (i32 i = 0; i < PER; i++) {
                va[i] = left[q][z + 16 * i];
                vb[i] = right[q][x + 16 * i];
            }
            UNROLL
            for (i32 i = 0; i < PER; i++) {
                UNROLL
                for (i32 j = 0; j < PER; j++) acc[i][j] = MADD(va[i], vb[j], acc[i][j]);
            }
        }
        BARRIER();
    }
    UNROLL
    for (i32 i = 0; i < PER; i++) {
        UNROLL
        for (i32 j = 0; j < PER; j++) {
            const i64 r = row + z + 16 * i, c = column + x + 16 * j;
            if (r < m && c < n) y[oy + (batch * m + r) * n + c] = STORE(acc[i][j]);
        }
    }
}
