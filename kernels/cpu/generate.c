/* iota and philox: tensors made from numbers. */
#include "scalar.h"
#include "tile.h"

static void iota_float(const hl_generate *k, double start, double step, void *out) {
    for (int64_t i = 0; i < k->n; i++) {
        double v = start + (double)i * step;
        if (k->dtype == HL_F64) ((double *)out)[i] = v;
        if (k->dtype == HL_F32) ((float *)out)[i] = (float)v;
        if (k->dtype == HL_F16) ((uint16_t *)out)[i] = hl_f64_to_f16(v);
    }
}

static void iota_int(const hl_generate *k, int64_t start, int64_t step, void *out) {
    for (int64_t i = 0; i < k->n; i++) {
        int64_t v = pk_add_i64(start, pk_mul_i64(i, step));
        if (k->dtype == HL_BOOL) ((uint8_t *)out)[i] = v != 0;
        if (k->dtype == HL_U8) ((uint8_t *)out)[i] = (uint8_t)v;
        if (k->dtype == HL_I32) ((int32_t *)out)[i] = (int32_t)v;
        if (k->dtype == HL_I64) ((int64_t *)out)[i] = v;
    }
}

static int run_iota(const hl_kernel *self, const int64_t *args) {
    const hl_generate *k = (const hl_generate *)self;
    if (k->dtype >= HL_F16) {
        double start, step;
        memcpy(&start, &args[1], sizeof start);
        memcpy(&step, &args[2], sizeof step);
        iota_float(k, start, step, (void *)args[0]);
    } else {
        iota_int(k, args[1], args[2], (void *)args[0]);
    }
    return HL_OK;
}

/* Philox4x32-10: Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3,
 * SC11. */
static void philox(uint64_t counter, uint64_t key, uint32_t w[4]) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    w[0] = (uint32_t)counter;
    w[1] = (uint32_t)(counter >> 32);
    w[2] = w[3] = 0;
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53 * w[0], p1 = (uint64_t)0xCD9E8D57 * w[2];
        w[0] = (uint32_t)(p1 >> 32) ^ w[1] ^ k0;
        w[1] = (uint32_t)p1;
        w[2] = (uint32_t)(p0 >> 32) ^ w[3] ^ k1;
        w[3] = (uint32_t)p0;
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
}

static int run_philox(const hl_kernel *self, const int64_t *args) {
    const hl_generate *k = (const hl_generate *)self;
    uint32_t *out = (uint32_t *)args[0], words[4];
    uint64_t key = (uint64_t)args[1], offset = (uint64_t)args[2];
    for (int64_t i = 0; i < k->n; i += 4) {
        philox(offset + (uint64_t)i / 4, key, words);
        int64_t left = k->n - i < 4 ? k->n - i : 4;
        memcpy(out + i, words, (size_t)left * 4);
    }
    return HL_OK;
}

void hl_iota_init(hl_generate *kernel) { kernel->base.run = run_iota; }
void hl_philox_init(hl_generate *kernel) { kernel->base.run = run_philox; }
