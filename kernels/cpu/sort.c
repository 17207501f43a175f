/* Stable sort along one dimension, and where the values were. Every dtype is mapped to an unsigned
 * key with the same order, so that one sort serves all: by radix, least significant digit first
 * (Knuth, The Art of Computer Programming 3, 5.2.5), by insertion where a lane is short. */
#include "scalar.h"
#include "tile.h"

enum { DIGITS = 8, RADIX = 256, SHORT_LANE = 48 };

typedef struct {
    uint64_t key;
    int64_t index;
} entry;

/* NaN, whatever its sign, is the largest; both zeros are equal. */
static inline uint64_t float_key(double value) {
    uint64_t u = hl_bits_f64(value + 0.0);
    uint64_t ordered = u ^ (u >> 63 ? ~(uint64_t)0 : (uint64_t)1 << 63);
    return value != value ? ~(uint64_t)0 : ordered;
}
static inline uint64_t narrow_float_key(float value) {
    uint32_t u = hl_bits_f32(value + 0.0f);
    uint32_t ordered = u ^ (u >> 31 ? ~(uint32_t)0 : (uint32_t)1 << 31);
    return value != value ? ~(uint32_t)0 : ordered;
}
static inline uint64_t int_key(int64_t value) { return (uint64_t)value ^ (uint64_t)1 << 63; }
static inline uint64_t narrow_int_key(int32_t value) {
    return (uint32_t)value ^ (uint32_t)1 << 31;
}

#define KEYS(code, type, order)                                                                  \
    case code:                                                                                   \
        for (int64_t i = 0; i < n; i++, x += step) out[i].key = order(*(const type *)x);         \
        break;
#define AS_IS(v) (v)
#define HALF(v) narrow_float_key(hl_f16_to_f32(v))
#define BFLOAT(v) narrow_float_key(hl_bf16_to_f32(v))
#define F8E4M3(v) narrow_float_key(hl_f8e4m3_to_f32(v))
#define F8E5M2(v) narrow_float_key(hl_f8e5m2_to_f32(v))

static void read_keys(int dtype, int64_t n, const char *x, int64_t step, entry *out) {
    switch (dtype) {
        KEYS(HL_BOOL, uint8_t, AS_IS)
        KEYS(HL_U8, uint8_t, AS_IS)
        KEYS(HL_U16, uint16_t, AS_IS)
        KEYS(HL_U32, uint32_t, AS_IS)
        KEYS(HL_U64, uint64_t, AS_IS)
        KEYS(HL_I8, int8_t, narrow_int_key)
        KEYS(HL_I16, int16_t, narrow_int_key)
        KEYS(HL_I32, int32_t, narrow_int_key)
        KEYS(HL_I64, int64_t, int_key)
        KEYS(HL_F16, uint16_t, HALF)
        KEYS(HL_BF16, uint16_t, BFLOAT)
        KEYS(HL_F8E4M3, uint8_t, F8E4M3)
        KEYS(HL_F8E5M2, uint8_t, F8E5M2)
        KEYS(HL_F32, float, narrow_float_key)
        KEYS(HL_F64, double, float_key)
    }
}

static void insertion_sort(entry *a, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        entry moving = a[i];
        int64_t j = i;
        for (; j > 0 && a[j - 1].key > moving.key; j--) a[j] = a[j - 1];
        a[j] = moving;
    }
}

/* Sorts a with the help of b, as long as it; returns the one that holds the result. */
static entry *radix_sort(entry *a, entry *b, int64_t n) {
    int64_t count[DIGITS][RADIX] = {{0}};
    for (int64_t i = 0; i < n; i++)
        for (int digit = 0; digit < DIGITS; digit++) count[digit][a[i].key >> 8 * digit & 255]++;
    for (int digit = 0; digit < DIGITS; digit++) {
        int64_t *place = count[digit], before = 0;
        if (place[a[0].key >> 8 * digit & 255] == n) continue; /* the same digit everywhere */
        for (int value = 0; value < RADIX; value++) {
            int64_t here = place[value];
            place[value] = before;
            before += here;
        }
        for (int64_t i = 0; i < n; i++) b[place[a[i].key >> 8 * digit & 255]++] = a[i];
        entry *sorted = b;
        b = a;
        a = sorted;
    }
    return a;
}

static void sort_lane(const hl_lanes *k, const char *x, char *y, char *z, entry *scratch) {
    int64_t n = k->shape[k->dim], x_step = k->x[k->dim];
    uint64_t flip = k->flag ? ~(uint64_t)0 : 0; /* descending, equal values still in order */
    entry *a = scratch;
    read_keys(k->dtype, n, x, x_step, a);
    for (int64_t i = 0; i < n; i++) {
        a[i].key ^= flip;
        a[i].index = i;
    }
    if (n <= SHORT_LANE)
        insertion_sort(a, n);
    else
        a = radix_sort(a, scratch + n, n);
    for (int64_t i = 0; i < n; i++) {
        *(int64_t *)(z + i * k->z[k->dim]) = a[i].index;
        hl_copy_plane(y + i * k->y[k->dim], 0, 0, x + a[i].index * x_step, 0, 0, 1, 1, k->itemsize);
    }
}

static int run_sort(const hl_kernel *self, const int64_t *args) {
    const hl_lanes *k = (const hl_lanes *)self;
    int64_t at[8] = {0}, outer[8];
    int moved;
    entry *scratch = hl_scratch((size_t)k->shape[k->dim] * 2 * sizeof *scratch);
    if (!scratch) return HL_NO_MEMORY;
    for (int d = 0; d < k->ndim; d++) outer[d] = d == k->dim ? 1 : k->shape[d];
    do {
        const char *x = (const char *)args[0];
        char *y = (char *)args[1], *z = (char *)args[2];
        for (int d = 0; d < k->ndim; d++) {
            x += at[d] * k->x[d];
            y += at[d] * k->y[d];
            z += at[d] * k->z[d];
        }
        sort_lane(k, x, y, z, scratch);
    } while (hl_next(at, outer, k->ndim, &moved));
    hl_release(scratch);
    return HL_OK;
}

void hl_sort_init(hl_lanes *kernel) { kernel->base.run = run_sort; }
