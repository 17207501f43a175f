#pragma once
#include <stddef.h>
#include <stdint.h>

/* What Python sees of the CPU kernels. build_cpu.py feeds this file to cffi without its
 * preprocessor lines, so that a declaration is written once.
 *
 * Every kernel is a structure that begins with its run function. The arguments of a launch are
 * 8-byte words: the addresses of the inputs, of the outputs, then the scalars (an int64 for bool
 * and integer dtypes, a double for floating ones, two for complex ones). Strides are bytes unless
 * a name says elements. */

typedef struct hl_kernel hl_kernel;
typedef int (*hl_run_fn)(const hl_kernel *self, const int64_t *args);
struct hl_kernel {
    hl_run_fn run;
};

enum hl_status { HL_OK, HL_ZERO_DIVISION, HL_INDEX, HL_NO_MEMORY, HL_LIBRARY };
enum hl_dtype {
    HL_BOOL, HL_U8, HL_I32, HL_I64, HL_F16, HL_F32, HL_F64, HL_C64, HL_C128,
    HL_U64, HL_I8, HL_I16, HL_U16, HL_U32, HL_BF16, HL_F8E4M3, HL_F8E5M2
};
enum hl_scatter { HL_SET, HL_ADD, HL_MUL, HL_MAX, HL_MIN };
enum hl_mode { HL_DIRECT, HL_LOAD, HL_UNIFORM };

int hl_run(const void *kernel, const char *args);
/* index, dimension and size of the last HL_INDEX, or the library's status of an HL_LIBRARY */
void hl_error_detail(int64_t *three);

const char *hl_op_name(int op); /* NULL past the last */
int hl_isa(void);               /* 1, 3 or 4: the x86-64 level whose kernels run */
int hl_set_isa(int level);      /* a lower level than the machine's, for tests; returns hl_isa() */

/* -- memory ------------------------------------------------------------------------------------ */
uintptr_t hl_alloc(size_t nbytes); /* 64-byte aligned; 0 when there is none */
void hl_free(uintptr_t address);
void hl_copy_in(uintptr_t dst, const char *src, size_t nbytes);
void hl_copy_out(char *dst, uintptr_t src, size_t nbytes);
void hl_move(uintptr_t dst, uintptr_t src, size_t nbytes);
void hl_pattern(uintptr_t dst, size_t nbytes, const char *pattern, size_t period);

/* -- elementwise: a program over tiles --------------------------------------------------------- */
typedef struct {
    int32_t op, dst, a, b, c; /* registers; an unused one repeats another */
} hl_instr;

typedef struct {
    int32_t arg, reg, itemsize, mode;
    int64_t stride[8];
} hl_operand;

typedef struct {
    int32_t reg, arg, dtype, itemsize; /* arg < 0: the value is bits */
    int64_t bits[2]; /* the second of complex numbers only */
} hl_fill;

typedef struct {
    hl_kernel base;
    int32_t ndim, n_operands, n_fills, n_code, n_regs, n_slots, slot_bytes;
    int64_t shape[8], box[8];
    const hl_operand *operands; /* the output is the last one */
    const hl_fill *fills;
    const hl_instr *code;
    const int32_t *slot; /* of each register; -1: it points into an operand */
} hl_elementwise;

typedef struct {
    hl_kernel base;
    int32_t ndim, itemsize, src_arg, dst_arg;
    int64_t shape[8], src[8], dst[8];
} hl_copy;

/* -- reductions -------------------------------------------------------------------------------- */
typedef struct {
    hl_kernel base;
    int32_t kept_ndim, red_ndim, by_rows, arg, direct;
    int32_t cast_op, combine_op, tile_op, final_op; /* cast_op or final_op -1: none */
    int32_t itemsize, acc_itemsize, out_itemsize;
    int64_t kept[8], kept_stride[8], red[8], red_stride[8], box[8];
    int64_t fold; /* by_rows: so many rows of the innermost reduced dimension are one long row */
} hl_reduce;

/* -- making and moving elements ---------------------------------------------------------------- */
typedef struct {
    hl_kernel base;
    int32_t dtype;
    int64_t n;
} hl_generate; /* iota and philox */

typedef struct {
    hl_kernel base;
    int32_t ndim, dim, itemsize, dtype, mode; /* mode: hl_scatter */
    int64_t size;                               /* of the indexed dimension */
    int64_t shape[8], index[8], data[8], out[8]; /* data: x of a gather, src of a scatter */
    const hl_kernel *copy;                      /* scatter: x into y */
} hl_index;

typedef struct {
    hl_kernel base;
    int32_t ndim, dim, dtype, itemsize, flag; /* flag: product of a scan, descending of a sort */
    int64_t shape[8], x[8], y[8], z[8];       /* z: a sort's indices */
    int32_t reverse;
} hl_lanes; /* scans and sorts: one lane along dim at a time */

typedef struct {
    hl_kernel base;
    int32_t dtype, mode, itemsize; /* mode 0 max, 1 sum */
    int64_t batch, channels, batch_stride, channel_stride;
    int64_t in[3], stride_in[3], out[3], kernel[3], step[3], pad[3], dilation[3];
} hl_window;

/* -- contractions ------------------------------------------------------------------------------ */
typedef struct {
    hl_kernel base;
    int32_t dtype, itemsize, ndim;
    int64_t m, n, k, a_row, a_col, b_row, b_col; /* strides in elements */
    int64_t batch[8], a[8], b[8];
} hl_matmul;

typedef struct {
    hl_kernel base;
    int32_t dtype, itemsize, kind; /* kind 0 forward, 1 to the input, 2 to the weight */
    int32_t in_arg, weight_arg, out_arg;
    int64_t batch, groups, in_channels, out_channels; /* channels of one group */
    int64_t in[3], out[3], kernel[3], step[3], pad[3], dilation[3];
} hl_conv;

typedef struct {
    const void *kernel;
    int32_t n_args;
    int32_t args[8]; /* >= 0: of the launch; < 0: temporary -1 - value */
} hl_step;

typedef struct {
    hl_kernel base;
    int32_t n_steps, n_temps;
    const hl_step *steps;
    const int64_t *temp_bytes;
} hl_sequence;

/* oneDNN: NULL or a message that says what failed */
const char *hl_onednn_open(const char *path);
void hl_onednn_threads(int count);
/* the kernels come back as addresses, 0 where the library refuses; hl_onednn_close releases one */
void *hl_onednn_matmul(int ndim, const int64_t *dims, const int64_t *a, const int64_t *b);
void *hl_onednn_conv(const hl_conv *conv, int spatial);
void hl_onednn_close(void *kernel);

void hl_elementwise_init(hl_elementwise *kernel);
void hl_copy_init(hl_copy *kernel);
void hl_reduce_init(hl_reduce *kernel);
void hl_iota_init(hl_generate *kernel);
void hl_philox_init(hl_generate *kernel);
void hl_gather_init(hl_index *kernel);
void hl_scatter_init(hl_index *kernel);
void hl_scan_init(hl_lanes *kernel);
void hl_sort_init(hl_lanes *kernel);
void hl_window_init(hl_window *kernel);
void hl_matmul_init(hl_matmul *kernel);
void hl_conv_init(hl_conv *kernel);
void hl_sequence_init(hl_sequence *kernel);
