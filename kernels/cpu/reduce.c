/* Reductions over any axes and strides. Two loop orders: along the reduced dimensions, a tile at a
 * time (the memory runs along them), or by rows, where a tile of outputs is combined with one row
 * after the other (the memory runs along a kept dimension). */
#include "tile.h"
#include <string.h>

/* Pairwise summation over tiles: level l holds the sum of 2**l of them. */
enum { LEVELS = 48, BLOCK_ROWS = 64, ROW_TILE = 512 };

typedef struct {
    int64_t level[LEVELS];
    uint64_t count;
} cascade;

static void push(cascade *c, int64_t value, hl_tile_fn combine) {
    int l = 0;
    for (uint64_t n = c->count++; n & 1; n >>= 1, l++)
        combine(1, &value, &c->level[l], &value, &value);
    c->level[l] = value;
}

static int64_t drain(cascade *c, hl_tile_fn combine) {
    int l = 0;
    uint64_t n = c->count;
    for (; !(n & 1); n >>= 1) l++;
    int64_t value = c->level[l];
    for (n >>= 1, l++; n; n >>= 1, l++)
        if (n & 1) combine(1, &value, &c->level[l], &value, &value);
    return value;
}

/* The box at p as a contiguous tile of accumulators: in place, loaded, cast. */
static const void *tile_at(const hl_reduce *k, const char *p, const int64_t *n, int64_t count,
                           char *loaded, char *cast) {
    const void *tile = p;
    if (!k->direct) {
        int64_t packed[8], size = k->itemsize;
        for (int d = k->red_ndim - 1; d >= 0; size *= n[d--]) packed[d] = size;
        hl_copy_box(loaded, packed, p, k->red_stride, n, k->red_ndim, k->itemsize);
        tile = loaded;
    }
    if (k->cast_op >= 0) {
        hl_kernels->ops[k->cast_op]((size_t)count, cast, tile, tile, tile);
        tile = cast;
    }
    return tile;
}

/* Walks the reduced boxes of one output in logical order; returns 0 after the last. */
static int next_box(const hl_reduce *k, int64_t *start, int64_t *n, const char **p) {
    for (int d = k->red_ndim - 1; d >= 0; d--) {
        int64_t back = start[d];
        start[d] += k->box[d];
        if (start[d] < k->red[d]) {
            int64_t left = k->red[d] - start[d];
            n[d] = left < k->box[d] ? left : k->box[d];
            *p += k->red_stride[d] * k->box[d];
            return 1;
        }
        start[d] = 0;
        n[d] = k->box[d];
        *p -= k->red_stride[d] * back;
    }
    return 0;
}

/* One output along its reduced dimensions; result receives an accumulator or an index. */
static void reduce_one(const hl_reduce *k, const char *p, int64_t *result) {
    char loaded[HL_SLOT] __attribute__((aligned(64))), cast[HL_SLOT] __attribute__((aligned(64)));
    const hl_tile_fn *ops = hl_kernels->ops;
    int64_t start[8] = {0}, n[8], value = 0;
    cascade sums = {.count = 0};
    hl_best best = {0};
    memcpy(n, k->box, sizeof n);
    do {
        int64_t count = 1;
        for (int d = 0; d < k->red_ndim; d++) count *= n[d];
        const void *tile = tile_at(k, p, n, count, loaded, cast);
        if (k->combine_op < 0) {
            ops[k->tile_op]((size_t)count, &best, tile, tile, tile);
        } else {
            ops[k->tile_op]((size_t)count, &value, tile, tile, tile);
            push(&sums, value, ops[k->combine_op]);
        }
    } while (next_box(k, start, n, &p));
    *result = k->combine_op < 0 ? best.index : drain(&sums, ops[k->combine_op]);
}

static void finish(const hl_reduce *k, char *out, const void *acc, int64_t n) {
    if (k->final_op < 0)
        memcpy(out, acc, (size_t)n * (size_t)k->out_itemsize);
    else
        hl_kernels->ops[k->final_op]((size_t)n, out, acc, acc, acc);
}

static int64_t total(const int64_t *shape, int ndim) {
    int64_t n = 1;
    for (int d = 0; d < ndim; d++) n *= shape[d];
    return n;
}

static int run_along(const hl_kernel *self, const int64_t *args) {
    const hl_reduce *k = (const hl_reduce *)self;
    const char *p = (const char *)args[k->arg];
    char *out = (char *)args[k->arg + 1];
    int64_t index[8] = {0}, result;
    int single = k->direct && k->cast_op < 0 && k->final_op < 0 && k->combine_op >= 0 &&
                 total(k->box, k->red_ndim) == total(k->red, k->red_ndim);
    hl_tile_fn tile = hl_kernels->ops[k->tile_op];
    int moved;
    do {
        const char *at = p;
        for (int d = 0; d < k->kept_ndim; d++) at += index[d] * k->kept_stride[d];
        if (single) {
            tile((size_t)total(k->red, k->red_ndim), out, at, at, at);
        } else {
            reduce_one(k, at, &result);
            finish(k, out, &result, 1);
        }
        out += k->out_itemsize;
    } while (hl_next(index, k->kept, k->kept_ndim, &moved));
    return HL_OK;
}

/* -- by rows ----------------------------------------------------------------------------------- */
typedef struct {
    char loaded[ROW_TILE * 8], cast[ROW_TILE * 8], block[ROW_TILE * 8], sum[ROW_TILE * 8];
} row_buffers;

/* A row of accumulators; in place where it needs neither a load nor a cast. */
static const void *row_at(const hl_reduce *k, const char *p, int64_t width, row_buffers *buf) {
    int64_t step = k->kept_stride[k->kept_ndim - 1];
    const void *row = p;
    if (step != k->itemsize) {
        hl_copy_plane(buf->loaded, 0, k->itemsize, p, 0, step, 1, width, k->itemsize);
        row = buf->loaded;
    }
    if (k->cast_op >= 0) {
        hl_kernels->ops[k->cast_op]((size_t)width, buf->cast, row, row, row);
        row = buf->cast;
    }
    return row;
}

/* Combines all rows below p into buf->sum; the error of a sum grows with blocks, not with rows. */
static void combine_rows(const hl_reduce *k, const int64_t *red, const int64_t *stride,
                         const char *p, int64_t width, row_buffers *buf) {
    hl_tile_fn combine = hl_kernels->ops[k->combine_op];
    size_t bytes = (size_t)width * (size_t)k->acc_itemsize;
    int64_t index[8] = {0}, rows = 0, blocks = 0;
    int more = 1, moved = 0;
    while (more) {
        const char *at = p;
        for (int d = 0; d < k->red_ndim; d++) at += index[d] * stride[d];
        const void *row = row_at(k, at, width, buf);
        if (rows++ == 0)
            memcpy(buf->block, row, bytes);
        else
            combine((size_t)width, buf->block, buf->block, row, row);
        more = hl_next(index, red, k->red_ndim, &moved);
        if (more && rows < BLOCK_ROWS) continue;
        if (blocks++ == 0)
            memcpy(buf->sum, buf->block, bytes);
        else
            combine((size_t)width, buf->sum, buf->sum, buf->block, buf->block);
        rows = 0;
    }
}

/* Short dense rows: `fold` of them are combined as one, then the parts and the rest. */
static void combine_folded(const hl_reduce *k, const char *p, int64_t width, row_buffers *buf) {
    hl_tile_fn combine = hl_kernels->ops[k->combine_op];
    int last = k->red_ndim - 1;
    int64_t red[8], stride[8], whole = k->red[last] / k->fold, rest = k->red[last] % k->fold;
    size_t part = (size_t)width * (size_t)k->acc_itemsize;
    char folded[ROW_TILE * 8];
    memcpy(red, k->red, sizeof red);
    memcpy(stride, k->red_stride, sizeof stride);
    red[last] = whole;
    stride[last] *= k->fold;
    combine_rows(k, red, stride, p, width * k->fold, buf);
    memcpy(folded, buf->sum, part * (size_t)k->fold);
    for (int64_t i = 1; i < k->fold; i++)
        combine((size_t)width, folded, folded, folded + (size_t)i * part, folded);
    if (rest) {
        red[last] = rest;
        combine_rows(k, red, k->red_stride, p + stride[last] * whole, width, buf);
        combine((size_t)width, folded, folded, buf->sum, buf->sum);
    }
    memcpy(buf->sum, folded, part);
}

static int run_by_rows(const hl_kernel *self, const int64_t *args) {
    const hl_reduce *k = (const hl_reduce *)self;
    row_buffers buf;
    char *out = (char *)args[k->arg + 1];
    int last = k->kept_ndim - 1, moved;
    int64_t index[8] = {0}, n = k->kept[last];
    do {
        const char *at = (const char *)args[k->arg];
        for (int d = 0; d < last; d++) at += index[d] * k->kept_stride[d];
        for (int64_t j = 0; j < n; j += ROW_TILE) {
            int64_t width = n - j < ROW_TILE ? n - j : ROW_TILE;
            if (k->fold > 1)
                combine_folded(k, at, width, &buf);
            else
                combine_rows(k, k->red, k->red_stride, at + j * k->kept_stride[last], width, &buf);
            finish(k, out, buf.sum, width);
            out += width * k->out_itemsize;
        }
    } while (hl_next(index, k->kept, last, &moved));
    return HL_OK;
}

void hl_reduce_init(hl_reduce *kernel) {
    kernel->base.run = kernel->by_rows ? run_by_rows : run_along;
}
