/* Windows of one dtype: T its type, S the suffix, W the type computed in, GET(x), PUT(v) and
 * IS_NAN(v). */
#define FN2(name, s) name##_##s
#define FN1(name, s) FN2(name, s)
#define FN(name) FN1(name, S)

/* The window [lo, hi) of every dimension, in input positions step `dilation` apart. */
static W FN(window_sum)(const hl_window *k, const char *x, const span *w) {
    W total = 0;
    for (int64_t a = w[0].lo; a < w[0].hi; a += k->dilation[0])
        for (int64_t b = w[1].lo; b < w[1].hi; b += k->dilation[1]) {
            const char *row = x + a * k->stride_in[0] + b * k->stride_in[1];
            for (int64_t c = w[2].lo; c < w[2].hi; c += k->dilation[2])
                total = (W)(total + GET(*(const T *)(row + c * k->stride_in[2])));
        }
    return total;
}

/* The first maximum wins, and the last NaN over everything, as in PyTorch's pooling. */
static int64_t FN(window_max)(const hl_window *k, const char *x, const span *w) {
    int64_t best_at = -1;
    W best = 0;
    for (int64_t a = w[0].lo; a < w[0].hi; a += k->dilation[0])
        for (int64_t b = w[1].lo; b < w[1].hi; b += k->dilation[1]) {
            const char *row = x + a * k->stride_in[0] + b * k->stride_in[1];
            for (int64_t c = w[2].lo; c < w[2].hi; c += k->dilation[2]) {
                W v = GET(*(const T *)(row + c * k->stride_in[2]));
                if (best_at < 0 || v > best || IS_NAN(v)) {
                    best = v;
                    best_at = (a * k->in[1] + b) * k->in[2] + c;
                }
            }
        }
    return best_at;
}

static void FN(window_one)(const hl_window *k, const char *x, const span *w, void *out,
                           int64_t *index, int64_t at) {
    T *values = out;
    if (k->mode == 1) {
        values[at] = PUT(FN(window_sum)(k, x, w));
        return;
    }
    int64_t i = FN(window_max)(k, x, w);
    if (i < 0) i = 0; /* a window wholly in the padding, which the host refuses: stay in bounds */
    int64_t a = i / (k->in[1] * k->in[2]);
    index[at] = i;
    values[at] = *(const T *)(x + a * k->stride_in[0] + i / k->in[2] % k->in[1] * k->stride_in[1] +
                              i % k->in[2] * k->stride_in[2]);
}

#undef FN2
#undef FN1
#undef FN
#undef T
#undef S
#undef W
#undef GET
#undef PUT
#undef IS_NAN
