/* Sliding windows over one to three spatial dimensions (missing ones have extent 1). */
#include "scalar.h"
#include "tile.h"

typedef struct {
    int64_t lo, hi;
} span;

#define T uint8_t
#define S u8
#define IS_NAN(v) 0
#define W uint8_t
#define GET(x) (x)
#define PUT(x) (x)
#include "window_typed.h"
#define T int32_t
#define S i32
#define IS_NAN(v) 0
#define W int32_t
#define GET(x) (x)
#define PUT(x) (x)
#include "window_typed.h"
#define T int64_t
#define S i64
#define IS_NAN(v) 0
#define W int64_t
#define GET(x) (x)
#define PUT(x) (x)
#include "window_typed.h"
#define T uint16_t
#define S f16
#define IS_NAN(v) ((v) != (v))
#define W float
#define GET(x) hl_f16_to_f32(x)
#define PUT(x) hl_f32_to_f16(x)
#include "window_typed.h"
#define T float
#define S f32
#define IS_NAN(v) ((v) != (v))
#define W float
#define GET(x) (x)
#define PUT(x) (x)
#include "window_typed.h"
#define T double
#define S f64
#define IS_NAN(v) ((v) != (v))
#define W double
#define GET(x) (x)
#define PUT(x) (x)
#include "window_typed.h"

typedef void (*window_fn)(const hl_window *, const char *, const span *, void *, int64_t *,
                          int64_t);

static const window_fn window_of[] = {
    [HL_U8] = window_one_u8,   [HL_I32] = window_one_i32, [HL_I64] = window_one_i64,
    [HL_F16] = window_one_f16, [HL_F32] = window_one_f32, [HL_F64] = window_one_f64,
};

/* The part of window o along dimension d that lies inside the input. */
static span clip(const hl_window *k, int d, int64_t o) {
    span s = {o * k->step[d] - k->pad[d], 0};
    s.hi = s.lo + (k->kernel[d] - 1) * k->dilation[d] + 1;
    if (s.lo < 0) s.lo += (-s.lo + k->dilation[d] - 1) / k->dilation[d] * k->dilation[d];
    if (s.hi > k->in[d]) s.hi = k->in[d];
    return s;
}

static int run_window(const hl_kernel *self, const int64_t *args) {
    const hl_window *k = (const hl_window *)self;
    window_fn window = window_of[k->dtype];
    void *out = (void *)args[1];
    int64_t *index = k->mode == 0 ? (int64_t *)args[2] : NULL, at = 0;
    for (int64_t nc = 0; nc < k->batch * k->channels; nc++) {
        const char *x = (const char *)args[0] + nc / k->channels * k->batch_stride +
                        nc % k->channels * k->channel_stride;
        span w[3];
        for (int64_t a = 0; a < k->out[0]; a++) {
            w[0] = clip(k, 0, a);
            for (int64_t b = 0; b < k->out[1]; b++) {
                w[1] = clip(k, 1, b);
                for (int64_t c = 0; c < k->out[2]; c++) {
                    w[2] = clip(k, 2, c);
                    window(k, x, w, out, index, at++);
                }
            }
        }
    }
    return HL_OK;
}

void hl_window_init(hl_window *kernel) { kernel->base.run = run_window; }
