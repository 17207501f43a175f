/* Reductions of one contiguous tile, for one dtype: T its type, S the suffix, IS_NAN(a),
 * EITHER_NAN(a, b) and NAN_VALUE for max and min, SUM_T (an unsigned twin of an integer, so that it
 * wraps) and SUMS where sums and products exist. d receives one value. */
#define FN2(name, s) name##_##s
#define FN1(name, s) FN2(name, s)
#define FN(name) FN1(name, S)

#ifdef SUMS
typedef SUM_T FN(vec) __attribute__((vector_size(HL_VECTOR), aligned(sizeof(T)), may_alias));
enum { FN(lanes) = HL_VECTOR / sizeof(T) };

static int FN(rsum)(size_t n, void *d, const void *a, const void *b, const void *c) {
    const T *x = a;
    FN(vec) s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    size_t i = 0;
    (void)b, (void)c;
    for (; i + 4 * FN(lanes) <= n; i += 4 * FN(lanes)) {
        s0 += *(const FN(vec) *)(x + i);
        s1 += *(const FN(vec) *)(x + i + FN(lanes));
        s2 += *(const FN(vec) *)(x + i + 2 * FN(lanes));
        s3 += *(const FN(vec) *)(x + i + 3 * FN(lanes));
    }
    s0 = (s0 + s1) + (s2 + s3);
    SUM_T total = 0;
    for (size_t j = 0; j < FN(lanes); j++) total += s0[j];
    for (; i < n; i++) total += (SUM_T)x[i];
    *(T *)d = (T)total;
    return HL_OK;
}

static int FN(rprod)(size_t n, void *d, const void *a, const void *b, const void *c) {
    const T *x = a;
    SUM_T p[4] = {1, 1, 1, 1};
    size_t i = 0;
    (void)b, (void)c;
    for (; i + 4 <= n; i += 4)
        for (int j = 0; j < 4; j++) p[j] *= (SUM_T)x[i + (size_t)j];
    for (; i < n; i++) p[0] *= (SUM_T)x[i];
    *(T *)d = (T)((p[0] * p[1]) * (p[2] * p[3]));
    return HL_OK;
}
#endif

/* Two halves at once: one unordered compare finds a NaN in either. */
static int FN(rmax)(size_t n, void *d, const void *a, const void *b, const void *c) {
    const T *x = a;
    size_t half = n / 2;
    T best = x[n - 1], second = best;
    int nan = IS_NAN(best);
    (void)b, (void)c;
#pragma omp simd reduction(max : best, second) reduction(| : nan)
    for (size_t i = 0; i < half; i++) {
        best = x[i] > best ? x[i] : best;
        second = x[i + half] > second ? x[i + half] : second;
        nan |= EITHER_NAN(x[i], x[i + half]);
    }
    *(T *)d = nan ? NAN_VALUE : second > best ? second : best;
    return HL_OK;
}

static int FN(rmin)(size_t n, void *d, const void *a, const void *b, const void *c) {
    const T *x = a;
    size_t half = n / 2;
    T best = x[n - 1], second = best;
    int nan = IS_NAN(best);
    (void)b, (void)c;
#pragma omp simd reduction(min : best, second) reduction(| : nan)
    for (size_t i = 0; i < half; i++) {
        best = x[i] < best ? x[i] : best;
        second = x[i + half] < second ? x[i + half] : second;
        nan |= EITHER_NAN(x[i], x[i + half]);
    }
    *(T *)d = nan ? NAN_VALUE : second < best ? second : best;
    return HL_OK;
}

/* Merges a tile whose extreme is e into the running best; the first index of the extreme wins. */
static void FN(keep)(hl_best *best, const T *x, size_t n, T e, int better) {
    if (best->started && !better) return;
    size_t at = 0;
    while (at < n && !(x[at] == e || (IS_NAN(e) && IS_NAN(x[at])))) at++;
    memcpy(&best->value, &e, sizeof e);
    best->index = best->base + (int64_t)at;
    best->started = 1;
}

static int FN(argmax)(size_t n, void *d, const void *a, const void *b, const void *c) {
    hl_best *best = d;
    T e, old;
    FN(rmax)(n, &e, a, b, c);
    memcpy(&old, &best->value, sizeof old);
    FN(keep)(best, a, n, e, !IS_NAN(old) && (IS_NAN(e) || e > old));
    best->base += (int64_t)n;
    return HL_OK;
}

static int FN(argmin)(size_t n, void *d, const void *a, const void *b, const void *c) {
    hl_best *best = d;
    T e, old;
    FN(rmin)(n, &e, a, b, c);
    memcpy(&old, &best->value, sizeof old);
    FN(keep)(best, a, n, e, !IS_NAN(old) && (IS_NAN(e) || e < old));
    best->base += (int64_t)n;
    return HL_OK;
}

#undef FN2
#undef FN1
#undef FN
#undef T
#undef S
#undef SUM_T
#undef IS_NAN
#undef EITHER_NAN
#undef NAN_VALUE
#undef SUMS
