#pragma once
/* Shared by the C sources and not seen by Python. */
#include "api.h"

/* One operation over n elements. d may equal an operand exactly, and overlaps none otherwise. */
typedef int (*hl_tile_fn)(size_t n, void *d, const void *a, const void *b, const void *c);

/* c[m, n] (row stride ldc, columns adjacent) = a[m, k] b[k, n], plus c where accumulate is set;
 * strides in elements. Returns HL_NO_MEMORY or HL_OK. */
typedef struct {
    int64_t m, n, k, a_row, a_col, b_row, b_col, ldc;
    int accumulate;
} hl_gemm_shape;
typedef int (*hl_gemm_fn)(const hl_gemm_shape *s, const void *a, const void *b, void *c);

typedef struct {
    const hl_tile_fn *ops;
    hl_gemm_fn gemm[HL_F64 + 1];
} hl_isa_table;

extern const hl_isa_table hl_isa_v1, hl_isa_v3, hl_isa_v4;
extern const hl_isa_table *hl_kernels;

/* The running best of argmax and argmin, fed tile by tile. */
typedef struct {
    int64_t value; /* holds an element of any dtype */
    int64_t index, base;
    int64_t started;
} hl_best;

enum { HL_TILE = 1024, HL_SLOT = HL_TILE * 8 };

void hl_set_detail(int64_t a, int64_t b, int64_t c);
void *hl_scratch(size_t nbytes); /* 64-byte aligned, released with hl_release */
void hl_release(void *scratch);

/* Moves a [rows, cols] plane between any two layouts; strides in bytes. */
void hl_copy_plane(char *d, int64_t d_row, int64_t d_col, const char *s, int64_t s_row,
                   int64_t s_col, int64_t rows, int64_t cols, int itemsize);
/* Moves a box of any rank. */
void hl_copy_box(char *d, const int64_t *d_stride, const char *s, const int64_t *s_stride,
                 const int64_t *n, int ndim, int itemsize);
/* Advances an odometer; returns 0 when it wraps. moved is the dimension that was increased. */
int hl_next(int64_t *index, const int64_t *shape, int ndim, int *moved);
