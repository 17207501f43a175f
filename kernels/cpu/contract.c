/* Matrix products and convolutions over the packed product of gemm.h, for every dtype it has. */
#include "tile.h"
#include <string.h>

static int run_matmul(const hl_kernel *self, const int64_t *args) {
    const hl_matmul *k = (const hl_matmul *)self;
    hl_gemm_shape s = {k->m, k->n, k->k, k->a_row, k->a_col, k->b_row, k->b_col, k->n, 0};
    int64_t index[8] = {0};
    char *c = (char *)args[2];
    int moved, status = HL_OK;
    do {
        const char *a = (const char *)args[0], *b = (const char *)args[1];
        for (int d = 0; d < k->ndim; d++) {
            a += index[d] * k->a[d] * k->itemsize;
            b += index[d] * k->b[d] * k->itemsize;
        }
        status = hl_kernels->gemm[k->dtype](&s, a, b, c);
        c += k->m * k->n * k->itemsize;
    } while (!status && hl_next(index, k->batch, k->ndim, &moved));
    return status;
}

/* -- convolution: columns of the input (im2col), then matrix products -------------------------- */
static int64_t volume(const int64_t *n) { return n[0] * n[1] * n[2]; }

static void add_elements(int dtype, char *d, const char *s, int64_t n, int64_t step) {
    for (int64_t j = 0; j < n; j++) {
        if (dtype == HL_F32)
            ((float *)d)[j * step] += ((const float *)s)[j];
        else
            ((double *)d)[j * step] += ((const double *)s)[j];
    }
}

typedef struct {
    int64_t first, count; /* output positions whose input position exists */
} range;

/* o * step + offset lies in [0, size) for o in the range. */
static range inside(int64_t out, int64_t step, int64_t offset, int64_t size) {
    int64_t first = offset < 0 ? (-offset + step - 1) / step : 0;
    int64_t end = size > offset ? (size - offset + step - 1) / step : 0;
    if (end > out) end = out;
    if (first > end) first = end;
    return (range){first, end - first};
}

/* One tap of one output row: gathers it from the input, or adds it back. */
static void move_row(const hl_conv *k, char *x, char *col, range r, int64_t offset, int back) {
    char *xp = x + (r.first * k->step[2] + offset) * k->itemsize;
    char *cp = col + r.first * k->itemsize;
    if (back)
        add_elements(k->dtype, xp, cp, r.count, k->step[2]);
    else
        hl_copy_plane(cp, 0, k->itemsize, xp, 0, k->step[2] * k->itemsize, 1, r.count, k->itemsize);
}

/* One tap (kernel position) of one channel for all outputs; col is zero where the input ends. */
static void move_tap(const hl_conv *k, char *x, char *col, const int64_t *tap, int back) {
    int64_t off[3], row_bytes = k->out[2] * k->itemsize;
    range r[3];
    for (int d = 0; d < 3; d++) {
        off[d] = tap[d] * k->dilation[d] - k->pad[d];
        r[d] = inside(k->out[d], k->step[d], off[d], k->in[d]);
    }
    if (!back) memset(col, 0, (size_t)(volume(k->out) * k->itemsize));
    for (int64_t a = r[0].first; a < r[0].first + r[0].count; a++)
        for (int64_t b = r[1].first; b < r[1].first + r[1].count; b++) {
            int64_t row = (a * k->step[0] + off[0]) * k->in[1] + b * k->step[1] + off[1];
            move_row(k, x + row * k->in[2] * k->itemsize, col + (a * k->out[1] + b) * row_bytes,
                     r[2], off[2], back);
        }
}

/* Between the input x[channels, *in] and its columns col[channels, *kernel, *out]. */
static void move_columns(const hl_conv *k, char *x, char *col, int back) {
    int64_t tap[3] = {0};
    int moved;
    for (int64_t c = 0; c < k->in_channels; c++) {
        do {
            move_tap(k, x, col, tap, back);
            col += volume(k->out) * k->itemsize;
        } while (hl_next(tap, k->kernel, 3, &moved));
        x += volume(k->in) * k->itemsize;
    }
}

/* One image and group: x input, w weight, y output, of which one is written. */
static int conv_group(const hl_conv *k, char *x, char *w, char *y, char *col, int64_t image) {
    hl_gemm_fn gemm = hl_kernels->gemm[k->dtype];
    int64_t taps = k->in_channels * volume(k->kernel), n = volume(k->out), o = k->out_channels;
    if (k->kind == 0) {
        hl_gemm_shape s = {o, n, taps, taps, 1, n, 1, n, 0};
        move_columns(k, x, col, 0);
        return gemm(&s, w, col, y);
    }
    if (k->kind == 1) {
        hl_gemm_shape s = {taps, n, o, 1, taps, n, 1, n, 0};
        int status = gemm(&s, w, y, col);
        memset(x, 0, (size_t)(k->in_channels * volume(k->in) * k->itemsize));
        move_columns(k, x, col, 1);
        return status;
    }
    hl_gemm_shape s = {o, taps, n, n, 1, 1, n, taps, image > 0};
    move_columns(k, x, col, 0);
    return gemm(&s, y, col, w);
}

static int run_conv(const hl_kernel *self, const int64_t *args) {
    const hl_conv *k = (const hl_conv *)self;
    int64_t taps = k->in_channels * volume(k->kernel), n = volume(k->out);
    int64_t x_bytes = k->in_channels * volume(k->in) * k->itemsize;
    int64_t y_bytes = k->out_channels * n * k->itemsize;
    int64_t w_bytes = k->out_channels * taps * k->itemsize;
    char *x = (char *)args[k->in_arg], *w = (char *)args[k->weight_arg];
    char *y = (char *)args[k->out_arg];
    char *col = hl_scratch((size_t)(taps * n * k->itemsize));
    int status = col ? HL_OK : HL_NO_MEMORY;
    for (int64_t i = 0; i < k->batch && !status; i++)
        for (int64_t g = 0; g < k->groups && !status; g++) {
            int64_t part = i * k->groups + g;
            status = conv_group(k, x + part * x_bytes, w + g * w_bytes, y + part * y_bytes, col, i);
        }
    hl_release(col);
    return status;
}

/* -- several kernels as one -------------------------------------------------------------------- */
enum { MAX_TEMPS = 8 };

static int run_steps(const hl_sequence *k, const int64_t *args, char **temp) {
    int status = HL_OK;
    for (int i = 0; i < k->n_steps && !status; i++) {
        const hl_step *step = &k->steps[i];
        const hl_kernel *kernel = step->kernel;
        int64_t inner[8];
        for (int j = 0; j < step->n_args; j++)
            inner[j] = step->args[j] >= 0 ? args[step->args[j]] : (int64_t)temp[-1 - step->args[j]];
        status = kernel->run(kernel, inner);
    }
    return status;
}

static int run_sequence(const hl_kernel *self, const int64_t *args) {
    const hl_sequence *k = (const hl_sequence *)self;
    char *temp[MAX_TEMPS] = {0};
    int status = HL_OK;
    for (int i = 0; i < k->n_temps; i++) {
        temp[i] = hl_scratch((size_t)k->temp_bytes[i]);
        if (!temp[i]) status = HL_NO_MEMORY;
    }
    if (!status) status = run_steps(k, args, temp);
    for (int i = 0; i < k->n_temps; i++) hl_release(temp[i]);
    return status;
}

void hl_matmul_init(hl_matmul *kernel) { kernel->base.run = run_matmul; }
void hl_conv_init(hl_conv *kernel) { kernel->base.run = run_conv; }
void hl_sequence_init(hl_sequence *kernel) { kernel->base.run = run_sequence; }
