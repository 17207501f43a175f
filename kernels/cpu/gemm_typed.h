/* One dtype of gemm.h: T its type, S the suffix, ARITH the type it is computed in, MULTIPLY_ADD a
 * fused multiply-add of vectors where there is one. */
#define FN2(name, s) gemm_##name##_##s
#define FN1(name, s) FN2(name, s)
#define FN(name) FN1(name, S)
#define ENTRY2(s) gemm_##s
#define ENTRY1(s) ENTRY2(s)

typedef ARITH FN(vec) __attribute__((vector_size(HL_VECTOR), aligned(sizeof(T)), may_alias));
enum {
    FN(lanes) = HL_VECTOR / sizeof(T),
    FN(mr) = HL_VECTOR == 64 ? 12 : 6,
    FN(nr) = 2 * FN(lanes),
    FN(kc) = 256,
    FN(mc) = FN(mr) * 12,
    FN(nc) = FN(nr) * 64,
};

#ifndef MULTIPLY_ADD
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

/* acc[MR][NR] += sum over kc of a column of the packed A times a row of the packed B */
static void FN(micro)(int64_t kc, const ARITH *restrict a, const ARITH *restrict b,
                      ARITH *restrict out) {
    FN(vec) acc[FN(mr)][2] = {0};
    for (int64_t p = 0; p < kc; p++) {
        FN(vec) b0 = *(const FN(vec) *)b, b1 = *(const FN(vec) *)(b + FN(lanes));
#pragma GCC unroll 12
        for (int i = 0; i < FN(mr); i++) {
            FN(vec) x = a[i] - (FN(vec)){0};
            acc[i][0] = MULTIPLY_ADD(x, b0, acc[i][0]);
            acc[i][1] = MULTIPLY_ADD(x, b1, acc[i][1]);
        }
        a += FN(mr);
        b += FN(nr);
    }
#pragma GCC unroll 12
    for (int i = 0; i < FN(mr); i++) {
        *(FN(vec) *)(out + i * FN(nr)) = acc[i][0];
        *(FN(vec) *)(out + i * FN(nr) + FN(lanes)) = acc[i][1];
    }
}

/* Panels of `width` rows of a [rows, depth] matrix, zero-padded: panel[depth][width]. */
static void FN(pack)(ARITH *restrict panel, const T *restrict x, int64_t row, int64_t col,
                     int64_t rows, int64_t depth, int width) {
    for (int64_t r = 0; r < rows; r += width) {
        int64_t w = rows - r < width ? rows - r : width;
        const T *base = x + r * row;
        if (w < width) memset(panel, 0, sizeof(ARITH) * (size_t)(depth * width));
        if (row == 1) {
            for (int64_t p = 0; p < depth; p++)
                for (int64_t i = 0; i < w; i++) panel[p * width + i] = (ARITH)base[p * col + i];
        } else {
            for (int64_t i = 0; i < w; i++)
                for (int64_t p = 0; p < depth; p++)
                    panel[p * width + i] = (ARITH)base[i * row + p * col];
        }
        panel += depth * width;
    }
}

static void FN(store)(T *c, int64_t ldc, const ARITH *tile, int64_t m, int64_t n, int add) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            ARITH v = tile[i * FN(nr) + j];
            c[i * ldc + j] = (T)(add ? (ARITH)((ARITH)c[i * ldc + j] + v) : v);
        }
}

static void FN(block)(int64_t m, int64_t n, int64_t k, const ARITH *pa, const ARITH *pb, T *c,
                      int64_t ldc, int add) {
    ARITH tile[FN(mr) * FN(nr)];
    for (int64_t j = 0; j < n; j += FN(nr))
        for (int64_t i = 0; i < m; i += FN(mr)) {
            int64_t h = m - i < FN(mr) ? m - i : FN(mr), w = n - j < FN(nr) ? n - j : FN(nr);
            FN(micro)(k, pa + i * k, pb + j * k, tile);
            FN(store)(c + i * ldc + j, ldc, tile, h, w, add);
        }
}

static int ENTRY1(S)(const hl_gemm_shape *s, const void *a_, const void *b_, void *c_) {
    const T *a = a_, *b = b_;
    T *c = c_;
    int64_t width = s->n < FN(nc) ? (s->n + FN(nr) - 1) / FN(nr) * FN(nr) : FN(nc);
    int64_t depth = s->k < FN(kc) ? s->k : FN(kc);
    ARITH *pa = hl_scratch(sizeof(ARITH) * (size_t)(depth * (FN(mc) + width)));
    if (!pa) return HL_NO_MEMORY;
    ARITH *pb = pa + FN(mc) * depth;
    for (int64_t j = 0; j < s->n; j += FN(nc))
        for (int64_t p = 0; p < s->k; p += FN(kc)) {
            int64_t nb = s->n - j < FN(nc) ? s->n - j : FN(nc);
            int64_t kb = s->k - p < FN(kc) ? s->k - p : FN(kc);
            FN(pack)(pb, b + p * s->b_row + j * s->b_col, s->b_col, s->b_row, nb, kb, FN(nr));
            for (int64_t i = 0; i < s->m; i += FN(mc)) {
                int64_t mb = s->m - i < FN(mc) ? s->m - i : FN(mc);
                FN(pack)(pa, a + i * s->a_row + p * s->a_col, s->a_row, s->a_col, mb, kb, FN(mr));
                FN(block)(mb, nb, kb, pa, pb, c + i * s->ldc + j, s->ldc, s->accumulate || p > 0);
            }
        }
    hl_release(pa);
    return HL_OK;
}

#undef FN2
#undef FN1
#undef FN
#undef ENTRY2
#undef ENTRY1
#undef T
#undef S
#undef ARITH
#undef MULTIPLY_ADD
