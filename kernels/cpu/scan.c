/* Running sums and products along one dimension. Half precision accumulates in float and float in
 * double; integers wrap. */
#include "scalar.h"
#include "tile.h"

typedef void (*hl_scan_fn)(int64_t n, const char *x, int64_t x_step, char *y, int64_t y_step);

#define AS_IS(v) (v)
#define SCAN(name, stored, sum, load, store, join)                                               \
    static void name(int64_t n, const char *x, int64_t x_step, char *y, int64_t y_step) {        \
        sum running = load(*(const stored *)x);                                                  \
        *(stored *)y = *(const stored *)x;                                                       \
        for (int64_t i = 1; i < n; i++) {                                                        \
            x += x_step;                                                                         \
            y += y_step;                                                                         \
            running = join(running, load(*(const stored *)x));                                   \
            *(stored *)y = (stored)store(running);                                               \
        }                                                                                        \
    }

#define PLUS(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
#define EITHER(a, b) ((a) | (b))
#define BOTH(a, b) ((a) & (b))
SCAN(sum_bool, uint8_t, uint8_t, AS_IS, AS_IS, EITHER)
SCAN(sum_u8, uint8_t, uint32_t, AS_IS, AS_IS, PLUS)
SCAN(sum_i32, int32_t, int32_t, AS_IS, AS_IS, pk_add_i32)
SCAN(sum_i64, int64_t, int64_t, AS_IS, AS_IS, pk_add_i64)
SCAN(sum_u64, uint64_t, uint64_t, AS_IS, AS_IS, PLUS)
SCAN(sum_f16, uint16_t, float, hl_f16_to_f32, hl_f32_to_f16, PLUS)
SCAN(sum_f32, float, double, AS_IS, AS_IS, PLUS)
SCAN(sum_f64, double, double, AS_IS, AS_IS, PLUS)
SCAN(prod_bool, uint8_t, uint8_t, AS_IS, AS_IS, BOTH)
SCAN(prod_u8, uint8_t, uint32_t, AS_IS, AS_IS, TIMES)
SCAN(prod_i32, int32_t, int32_t, AS_IS, AS_IS, pk_mul_i32)
SCAN(prod_i64, int64_t, int64_t, AS_IS, AS_IS, pk_mul_i64)
SCAN(prod_u64, uint64_t, uint64_t, AS_IS, AS_IS, TIMES)
SCAN(prod_f16, uint16_t, float, hl_f16_to_f32, hl_f32_to_f16, TIMES)
SCAN(prod_f32, float, double, AS_IS, AS_IS, TIMES)
SCAN(prod_f64, double, double, AS_IS, AS_IS, TIMES)

static const hl_scan_fn scans[][2] = {
    [HL_BOOL] = {sum_bool, prod_bool}, [HL_U8] = {sum_u8, prod_u8},
    [HL_I32] = {sum_i32, prod_i32},    [HL_I64] = {sum_i64, prod_i64},
    [HL_U64] = {sum_u64, prod_u64},    [HL_F16] = {sum_f16, prod_f16},
    [HL_F32] = {sum_f32, prod_f32},    [HL_F64] = {sum_f64, prod_f64},
};

static int run_scan(const hl_kernel *self, const int64_t *args) {
    const hl_lanes *k = (const hl_lanes *)self;
    hl_scan_fn scan = scans[k->dtype][k->flag];
    int64_t n = k->shape[k->dim], x_step = k->x[k->dim], y_step = k->y[k->dim];
    int64_t x_first = k->reverse ? (n - 1) * x_step : 0, y_first = k->reverse ? (n - 1) * y_step : 0;
    int64_t at[8] = {0}, outer[8];
    int sign = k->reverse ? -1 : 1, moved;
    for (int d = 0; d < k->ndim; d++) outer[d] = d == k->dim ? 1 : k->shape[d];
    do {
        const char *x = (const char *)args[0] + x_first;
        char *y = (char *)args[1] + y_first;
        for (int d = 0; d < k->ndim; d++) {
            x += at[d] * k->x[d];
            y += at[d] * k->y[d];
        }
        scan(n, x, sign * x_step, y, sign * y_step);
    } while (hl_next(at, outer, k->ndim, &moved));
    return HL_OK;
}

void hl_scan_init(hl_lanes *kernel) { kernel->base.run = run_scan; }
