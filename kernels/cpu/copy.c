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

#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define HL_SHUFFLE 1
#endif
#endif

/* The side of the square that transpose_square moves in registers. */
enum { SQUARE = 4, SQUARE_RUN = 64 };

#ifdef HL_SHUFFLE
typedef uint32_t quad __attribute__((vector_size(16), aligned(4), may_alias));

/* d[i][j] = s[j][i] for 4 x 4 elements of 4 bytes. */
static void transpose_square(char *d, int64_t d_row, const char *s, int64_t s_col) {
    quad a = *(const quad *)s, b = *(const quad *)(s + s_col);
    quad c = *(const quad *)(s + 2 * s_col), e = *(const quad *)(s + 3 * s_col);
    quad ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    quad ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    quad ce0 = __builtin_shufflevector(c, e, 0, 4, 1, 5);
    quad ce1 = __builtin_shufflevector(c, e, 2, 6, 3, 7);
    *(quad *)d = __builtin_shufflevector(ab0, ce0, 0, 1, 4, 5);
    *(quad *)(d + d_row) = __builtin_shufflevector(ab0, ce0, 2, 3, 6, 7);
    *(quad *)(d + 2 * d_row) = __builtin_shufflevector(ab1, ce1, 0, 1, 4, 5);
    *(quad *)(d + 3 * d_row) = __builtin_shufflevector(ab1, ce1, 2, 3, 6, 7);
}
#else
static void transpose_square(char *d, int64_t d_row, const char *s, int64_t s_col) {
    for (int i = 0; i < SQUARE; i++)
        for (int j = 0; j < SQUARE; j++)
            ((uint32_t *)(d + i * d_row))[j] = ((const uint32_t *)(s + j * s_col))[i];
}
#endif

/* The whole squares of a transposed plane of 4-byte elements, in bands of rows so that the lines
 * written stay cached until their neighbours come. */
static void transpose_squares(char *d, int64_t d_row, const char *s, int64_t s_col, int64_t rows,
                              int64_t cols) {
    for (int64_t i0 = 0; i0 < rows; i0 += SQUARE_RUN) {
        int64_t i1 = i0 + SQUARE_RUN < rows ? i0 + SQUARE_RUN : rows;
        for (int64_t j = 0; j < cols; j += SQUARE)
            for (int64_t i = i0; i < i1; i += SQUARE)
                transpose_square(d + i * d_row + j * 4, d_row, s + j * s_col + i * 4, s_col);
    }
}

#define T uint8_t
#define S 1
#include "copy_typed.h"
#define T uint16_t
#define S 2
#include "copy_typed.h"
#define T uint32_t
#define S 4
#include "copy_typed.h"
#define T uint64_t
#define S 8
#include "copy_typed.h"
typedef struct {
    uint64_t half[2];
} hl_wide;
#define T hl_wide
#define S 16
#include "copy_typed.h"

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
