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

/* The element that a number's words stand for. */
static void as_element(int dtype, const int64_t *word, void *element) {
    double value;
    float parts[2];
    memcpy(&value, word, sizeof value);
    parts[0] = (float)value;
    switch (dtype) {
    case HL_BOOL: *(uint8_t *)element = *word != 0; break;
    case HL_F16: *(uint16_t *)element = hl_f64_to_f16(value); break;
    case HL_BF16: *(uint16_t *)element = hl_f32_to_bf16(parts[0]); break;
    case HL_F8E4M3: *(uint8_t *)element = hl_f32_to_f8e4m3(parts[0]); break;
    case HL_F8E5M2: *(uint8_t *)element = hl_f32_to_f8e5m2(parts[0]); break;
    case HL_F32: memcpy(element, parts, 4); break;
    case HL_C64:
        memcpy(&value, word + 1, sizeof value);
        parts[1] = (float)value;
        memcpy(element, parts, 8);
        break;
    case HL_C128: memcpy(element, word, 16); break;
    default: memcpy(element, word, 8); break; /* narrow integers are its first bytes */
    }
}

static void fill_tile(char *tile, const void *element, int itemsize, int64_t n) {
    hl_copy_plane(tile, 0, itemsize, element, 0, 0, 1, n, itemsize);
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
        int64_t element[2];
        as_element(f->dtype, f->arg < 0 ? f->bits : args + f->arg, element);
        fill_tile(m->reg[f->reg], element, f->itemsize, n);
    }
    for (int i = 0; i < k->n_operands; i++) {
        const hl_operand *o = &k->operands[i];
        if (o->mode != HL_UNIFORM) continue;
        fill_tile(m->reg[o->reg], m->at[i], o->itemsize, n);
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
