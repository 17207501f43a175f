/* The tile machine: runs a program of tile operations over the boxes of a coalesced loop nest. */
#include "scalar.h"
#include "tile.h"
#include <string.h>

enum { STACK_SLOTS = 8, LINE = 64 };

typedef struct {
    const hl_elementwise *k;
    char **reg;
    char **at; /* address of the current box in each operand */
} machine;

static int64_t as_bits(int dtype, int64_t word) {
    double value;
    float single;
    uint16_t half;
    memcpy(&value, &word, sizeof value);
    switch (dtype) {
    case HL_BOOL: return word != 0;
    case HL_F16:
        half = hl_f64_to_f16(value);
        return half;
    case HL_F32:
        single = (float)value;
        word = 0;
        memcpy(&word, &single, sizeof single);
        return word;
    default: return word;
    }
}

static void fill_tile(char *tile, int64_t bits, int itemsize, int64_t n) {
    hl_copy_plane(tile, 0, itemsize, (const char *)&bits, 0, 0, 1, n, itemsize);
}

static int64_t widest_box(const hl_elementwise *k) {
    int64_t n = 1;
    for (int d = 0; d < k->ndim; d++) n *= k->box[d];
    return n;
}

/* Constants, run-time scalars and operands that are the same everywhere are spread once. */
static void fill_uniform(const machine *m, const int64_t *args) {
    const hl_elementwise *k = m->k;
    int64_t n = widest_box(k);
    for (int i = 0; i < k->n_fills; i++) {
        const hl_fill *f = &k->fills[i];
        int64_t word = f->arg < 0 ? f->bits : args[f->arg];
        fill_tile(m->reg[f->reg], as_bits(f->dtype, word), f->itemsize, n);
    }
    for (int i = 0; i < k->n_operands; i++) {
        const hl_operand *o = &k->operands[i];
        if (o->mode != HL_UNIFORM) continue;
        int64_t bits = 0;
        memcpy(&bits, m->at[i], (size_t)o->itemsize);
        fill_tile(m->reg[o->reg], bits, o->itemsize, n);
    }
}

static void packed_strides(int64_t *stride, const int64_t *n, int ndim, int64_t itemsize) {
    for (int d = ndim - 1; d >= 0; d--) {
        stride[d] = itemsize;
        itemsize *= n[d];
    }
}

static void load_box(const machine *m, const int64_t *n) {
    const hl_elementwise *k = m->k;
    int64_t packed[8];
    for (int i = 0; i < k->n_operands; i++) {
        const hl_operand *o = &k->operands[i];
        if (o->mode == HL_DIRECT) {
            m->reg[o->reg] = m->at[i];
        } else if (o->mode == HL_LOAD && i + 1 < k->n_operands) {
            packed_strides(packed, n, k->ndim, o->itemsize);
            hl_copy_box(m->reg[o->reg], packed, m->at[i], o->stride, n, k->ndim, o->itemsize);
        }
    }
}

static void store_box(const machine *m, const int64_t *n) {
    const hl_elementwise *k = m->k;
    int last = k->n_operands - 1;
    const hl_operand *o = &k->operands[last];
    int64_t packed[8];
    if (o->mode == HL_DIRECT) return;
    packed_strides(packed, n, k->ndim, o->itemsize);
    hl_copy_box(m->at[last], o->stride, m->reg[o->reg], packed, n, k->ndim, o->itemsize);
}

static int run_box(const machine *m, const int64_t *n) {
    const hl_elementwise *k = m->k;
    const hl_tile_fn *ops = hl_kernels->ops;
    char **reg = m->reg;
    int64_t count = 1;
    int status = HL_OK;
    for (int d = 0; d < k->ndim; d++) count *= n[d];
    load_box(m, n);
    for (int i = 0; i < k->n_code; i++) {
        const hl_instr *c = &k->code[i];
        status |= ops[c->op]((size_t)count, reg[c->dst], reg[c->a], reg[c->b], reg[c->c]);
    }
    store_box(m, n);
    return status;
}

/* Moves to the next box; returns 0 after the last one. */
static int next_box(const machine *m, int64_t *start, int64_t *n) {
    const hl_elementwise *k = m->k;
    for (int d = k->ndim - 1; d >= 0; d--) {
        int64_t back = start[d];
        start[d] += k->box[d];
        if (start[d] < k->shape[d]) {
            for (int i = 0; i < k->n_operands; i++)
                m->at[i] += k->operands[i].stride[d] * k->box[d];
            int64_t left = k->shape[d] - start[d];
            n[d] = left < k->box[d] ? left : k->box[d];
            return 1;
        }
        start[d] = 0;
        n[d] = k->box[d];
        for (int i = 0; i < k->n_operands; i++) m->at[i] -= k->operands[i].stride[d] * back;
    }
    return 0;
}

static int run_boxes(const machine *m, const int64_t *args) {
    const hl_elementwise *k = m->k;
    int64_t start[8] = {0}, n[8];
    int status = HL_OK;
    for (int i = 0; i < k->n_operands; i++) m->at[i] = (char *)args[k->operands[i].arg];
    memcpy(n, k->box, sizeof n);
    fill_uniform(m, args);
    do status |= run_box(m, n);
    while (next_box(m, start, n));
    return status;
}

static int run_elementwise(const hl_kernel *self, const int64_t *args) {
    const hl_elementwise *k = (const hl_elementwise *)self;
    char *reg[k->n_regs], *at[k->n_operands];
    char stack[STACK_SLOTS * (4096 + LINE) + LINE];
    size_t need = (size_t)k->n_slots * (size_t)k->slot_bytes + LINE;
    char *scratch = need <= sizeof stack ? stack : hl_scratch(need);
    if (!scratch) return HL_NO_MEMORY;
    char *base = scratch + (LINE - (uintptr_t)scratch % LINE) % LINE;
    for (int r = 0; r < k->n_regs; r++)
        reg[r] = k->slot[r] < 0 ? NULL : base + (size_t)k->slot[r] * (size_t)k->slot_bytes;
    machine m = {k, reg, at};
    int status = run_boxes(&m, args);
    if (scratch != stack) hl_release(scratch);
    return status;
}

void hl_elementwise_init(hl_elementwise *kernel) { kernel->base.run = run_elementwise; }
