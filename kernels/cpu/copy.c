/* Moving boxes of elements between layouts: the loads and stores of every other kernel. */
#include "tile.h"
#include <string.h>

int hl_next(int64_t *index, const int64_t *shape, int ndim, int *moved) {
    for (int d = ndim - 1; d >= 0; d--) {
        if (++index[d] < shape[d]) {
            *moved = d;
            return 1;
        }
        index[d] = 0;
    }
    return 0;
}

#define T uint8_t
#define S 1
#include "copy.inc"
#define T uint16_t
#define S 2
#include "copy.inc"
#define T uint32_t
#define S 4
#include "copy.inc"
#define T uint64_t
#define S 8
#include "copy.inc"
typedef struct {
    uint64_t half[2];
} hl_wide;
#define T hl_wide
#define S 16
#include "copy.inc"

void hl_copy_plane(char *d, int64_t d_row, int64_t d_col, const char *s, int64_t s_row,
                   int64_t s_col, int64_t rows, int64_t cols, int itemsize) {
    switch (itemsize) {
    case 1: plane_1(d, d_row, d_col, s, s_row, s_col, rows, cols); break;
    case 2: plane_2(d, d_row, d_col, s, s_row, s_col, rows, cols); break;
    case 4: plane_4(d, d_row, d_col, s, s_row, s_col, rows, cols); break;
    case 8: plane_8(d, d_row, d_col, s, s_row, s_col, rows, cols); break;
    default: plane_16(d, d_row, d_col, s, s_row, s_col, rows, cols); break;
    }
}

void hl_copy_box(char *d, const int64_t *d_stride, const char *s, const int64_t *s_stride,
                 const int64_t *n, int ndim, int itemsize) {
    int last = ndim - 1, outer = ndim > 2 ? ndim - 2 : 0;
    int64_t rows = ndim > 1 ? n[last - 1] : 1;
    int64_t d_row = ndim > 1 ? d_stride[last - 1] : 0, s_row = ndim > 1 ? s_stride[last - 1] : 0;
    int64_t index[8] = {0};
    int moved;
    do {
        char *dp = d;
        const char *sp = s;
        for (int k = 0; k < outer; k++) {
            dp += index[k] * d_stride[k];
            sp += index[k] * s_stride[k];
        }
        hl_copy_plane(dp, d_row, d_stride[last], sp, s_row, s_stride[last], rows, n[last],
                      itemsize);
    } while (hl_next(index, n, outer, &moved));
}

static int run_copy(const hl_kernel *self, const int64_t *args) {
    const hl_copy *k = (const hl_copy *)self;
    hl_copy_box((char *)args[k->dst_arg], k->dst, (const char *)args[k->src_arg], k->src, k->shape,
                k->ndim, k->itemsize);
    return HL_OK;
}

void hl_copy_init(hl_copy *kernel) { kernel->base.run = run_copy; }
