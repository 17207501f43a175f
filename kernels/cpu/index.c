/* gather and scatter along one dimension. */
#include "scalar.h"
#include "tile.h"

/* Looks at every distinct index before anything is written. */
static int check_bounds(const hl_index *k, const char *index) {
    int64_t shape[8], at[8] = {0};
    int moved;
    for (int d = 0; d < k->ndim; d++) shape[d] = k->index[d] ? k->shape[d] : 1;
    do {
        const char *p = index;
        for (int d = 0; d < k->ndim - 1; d++) p += at[d] * k->index[d];
        int64_t step = k->index[k->ndim - 1];
        for (int64_t j = 0; j < shape[k->ndim - 1]; j++) {
            int64_t value = *(const int64_t *)(p + j * step);
            if (value < 0 || value >= k->size) {
                hl_set_detail(value, k->dim, k->size);
                return HL_INDEX;
            }
        }
    } while (hl_next(at, shape, k->ndim - 1, &moved));
    return HL_OK;
}

/* A row of the innermost dimension whose elements all have one index. */
static int uniform_row(const hl_index *k) {
    return k->index[k->ndim - 1] == 0 && k->dim != k->ndim - 1;
}

static void gather_row(const hl_index *k, char *out, const char *x, const char *index) {
    int last = k->ndim - 1;
    int64_t step = k->dim == last ? 0 : k->data[last], along = k->data[k->dim];
    if (uniform_row(k)) {
        x += *(const int64_t *)index * along;
        hl_copy_plane(out, 0, k->out[last], x, 0, step, 1, k->shape[last], k->itemsize);
        return;
    }
    for (int64_t j = 0; j < k->shape[last]; j++) {
        int64_t i = *(const int64_t *)(index + j * k->index[last]);
        hl_copy_plane(out + j * k->out[last], 0, 0, x + j * step + i * along, 0, 0, 1, 1,
                      k->itemsize);
    }
}

static int run_gather(const hl_kernel *self, const int64_t *args) {
    const hl_index *k = (const hl_index *)self;
    const char *x = (const char *)args[0], *index = (const char *)args[1];
    char *out = (char *)args[2];
    int64_t at[8] = {0};
    int moved, status = check_bounds(k, index);
    if (status) return status;
    do {
        const char *xp = x, *ip = index;
        char *op = out;
        for (int d = 0; d < k->ndim - 1; d++) {
            xp += d == k->dim ? 0 : at[d] * k->data[d];
            ip += at[d] * k->index[d];
            op += at[d] * k->out[d];
        }
        gather_row(k, op, xp, ip);
    } while (hl_next(at, k->shape, k->ndim - 1, &moved));
    return HL_OK;
}

static void add_element(int dtype, char *out, const char *src) {
    switch (dtype) {
    case HL_BOOL: *(uint8_t *)out |= *(const uint8_t *)src; break;
    case HL_U8: *(uint8_t *)out = pk_add_u8(*(uint8_t *)out, *(const uint8_t *)src); break;
    case HL_I32: *(int32_t *)out = pk_add_i32(*(int32_t *)out, *(const int32_t *)src); break;
    case HL_I64: *(int64_t *)out = pk_add_i64(*(int64_t *)out, *(const int64_t *)src); break;
    case HL_F16:
        *(uint16_t *)out = hl_f32_to_f16(hl_f16_to_f32(*(uint16_t *)out) +
                                         hl_f16_to_f32(*(const uint16_t *)src));
        break;
    case HL_F32: *(float *)out += *(const float *)src; break;
    default: *(double *)out += *(const double *)src; break;
    }
}

static void add_f32_row(float *out, const float *src, int64_t n) {
#pragma GCC ivdep
    for (int64_t j = 0; j < n; j++) out[j] += src[j];
}

static void scatter_row(const hl_index *k, char *out, const char *src, const char *index) {
    int last = k->ndim - 1;
    int64_t n = k->shape[last], step = k->dim == last ? 0 : k->out[last], along = k->out[k->dim];
    int uniform = uniform_row(k);
    if (uniform) out += *(const int64_t *)index * along;
    if (uniform && !k->add) {
        hl_copy_plane(out, 0, step, src, 0, k->data[last], 1, n, k->itemsize);
        return;
    }
    if (uniform && k->dtype == HL_F32 && step == 4 && k->data[last] == 4) {
        add_f32_row((float *)out, (const float *)src, n);
        return;
    }
    for (int64_t j = 0; j < n; j++) {
        int64_t i = uniform ? 0 : *(const int64_t *)(index + j * k->index[last]);
        char *d = out + j * step + i * along;
        const char *s = src + j * k->data[last];
        if (k->add)
            add_element(k->dtype, d, s);
        else
            hl_copy_plane(d, 0, 0, s, 0, 0, 1, 1, k->itemsize);
    }
}

static int run_scatter(const hl_kernel *self, const int64_t *args) {
    const hl_index *k = (const hl_index *)self;
    const char *index = (const char *)args[1], *src = (const char *)args[2];
    char *out = (char *)args[3];
    int64_t at[8] = {0};
    int moved, status = check_bounds(k, index);
    if (status) return status;
    if (args[0] != args[3]) k->copy->run(k->copy, args);
    do {
        const char *sp = src, *ip = index;
        char *op = out;
        for (int d = 0; d < k->ndim - 1; d++) {
            sp += at[d] * k->data[d];
            ip += at[d] * k->index[d];
            op += d == k->dim ? 0 : at[d] * k->out[d];
        }
        scatter_row(k, op, sp, ip);
    } while (hl_next(at, k->shape, k->ndim - 1, &moved));
    return HL_OK;
}

void hl_gather_init(hl_index *kernel) { kernel->base.run = run_gather; }
void hl_scatter_init(hl_index *kernel) { kernel->base.run = run_scatter; }
