/* Matrix products and convolutions by oneDNN 3, opened at run time: halon builds without its
 * headers, so the few declarations it needs are here (oneDNN C API, dnnl.h of 3.2). */
#define _GNU_SOURCE
#include "tile.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct dnnl_object *object; /* engine, stream, descriptor, primitive, memory */
typedef struct {
    int arg;
    object memory;
} exec_arg;

enum { CPU = 1, F32 = 3, STREAM_DEFAULT = 1, SCRATCHPAD_USER = 1, TAG_ANY = 1 };
enum { FORWARD = 64, CONV_DIRECT = 1 };
enum { QUERY_SRC = 129, QUERY_DIFF_SRC, QUERY_WEIGHTS, QUERY_DIFF_WEIGHTS, QUERY_DST };
enum { QUERY_DIFF_DST = 134, QUERY_SCRATCHPAD = 136 };
enum { ARG_SRC = 1, ARG_DST = 17, ARG_WEIGHTS = 33, ARG_SCRATCHPAD = 80, ARG_DIFF_SRC = 129 };
enum { ARG_DIFF_DST = 145, ARG_DIFF_WEIGHTS = 161, MAX_DIMS = 12 };

static struct {
    int (*engine_create)(object *, int kind, size_t index);
    int (*stream_create)(object *, object engine, unsigned flags);
    int (*stream_wait)(object);
    int (*md_strided)(object *, int ndims, const int64_t *dims, int type, const int64_t *strides);
    int (*md_tagged)(object *, int ndims, const int64_t *dims, int type, int tag);
    int (*md_equal)(object, object);
    size_t (*md_size)(object);
    int (*md_destroy)(object);
    int (*memory_create)(object *, object md, object engine, void *data);
    int (*memory_destroy)(object);
    int (*matmul)(object *, object engine, object a, object b, object bias, object c, object attr);
    int (*conv_forward)(object *, object engine, int prop, int alg, object x, object w, object bias,
                        object y, const int64_t *step, const int64_t *dilation, const int64_t *left,
                        const int64_t *right, object attr);
    int (*conv_data)(object *, object engine, int alg, object x, object w, object y,
                     const int64_t *step, const int64_t *dilation, const int64_t *left,
                     const int64_t *right, object hint, object attr);
    int (*conv_weights)(object *, object engine, int alg, object x, object w, object bias, object y,
                        const int64_t *step, const int64_t *dilation, const int64_t *left,
                        const int64_t *right, object hint, object attr);
    int (*reorder)(object *, object from, object engine, object to, object engine2, object attr);
    int (*primitive_create)(object *, object pd);
    int (*execute)(object primitive, object stream, int n, const exec_arg *args);
    object (*query_md)(object pd, int what, int index);
    int (*pd_destroy)(object);
    int (*primitive_destroy)(object);
    int (*attr_create)(object *);
    int (*attr_scratchpad)(object, int mode);
    void (*set_threads)(int);
} dnnl;

static const struct {
    const char *name;
    void *slot;
} symbols[] = {
    {"dnnl_engine_create", &dnnl.engine_create},
    {"dnnl_stream_create", &dnnl.stream_create},
    {"dnnl_stream_wait", &dnnl.stream_wait},
    {"dnnl_memory_desc_create_with_strides", &dnnl.md_strided},
    {"dnnl_memory_desc_create_with_tag", &dnnl.md_tagged},
    {"dnnl_memory_desc_equal", &dnnl.md_equal},
    {"dnnl_memory_desc_get_size", &dnnl.md_size},
    {"dnnl_memory_desc_destroy", &dnnl.md_destroy},
    {"dnnl_memory_create", &dnnl.memory_create},
    {"dnnl_memory_destroy", &dnnl.memory_destroy},
    {"dnnl_matmul_primitive_desc_create", &dnnl.matmul},
    {"dnnl_convolution_forward_primitive_desc_create", &dnnl.conv_forward},
    {"dnnl_convolution_backward_data_primitive_desc_create", &dnnl.conv_data},
    {"dnnl_convolution_backward_weights_primitive_desc_create", &dnnl.conv_weights},
    {"dnnl_reorder_primitive_desc_create", &dnnl.reorder},
    {"dnnl_primitive_create", &dnnl.primitive_create},
    {"dnnl_primitive_execute", &dnnl.execute},
    {"dnnl_primitive_desc_query_md", &dnnl.query_md},
    {"dnnl_primitive_desc_destroy", &dnnl.pd_destroy},
    {"dnnl_primitive_destroy", &dnnl.primitive_destroy},
    {"dnnl_primitive_attr_create", &dnnl.attr_create},
    {"dnnl_primitive_attr_set_scratchpad_mode", &dnnl.attr_scratchpad},
    {"omp_set_num_threads", &dnnl.set_threads},
};

static object engine, stream, attr;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static int threads; /* 0: as OpenMP chose, by affinity */
static char message[256];

/* libgomp's team does not survive a fork; a team of one needs no other thread. */
static void single_thread_in_child(void) { threads = 1; }

static const char *load(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(message, sizeof message, "%s", dlerror());
        return message;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *address = dlsym(library, symbols[i].name);
        if (!address) {
            snprintf(message, sizeof message, "%s has no %s", path, symbols[i].name);
            return message;
        }
        memcpy(symbols[i].slot, &address, sizeof address);
    }
    object e = NULL;
    if (dnnl.engine_create(&e, CPU, 0) || dnnl.stream_create(&stream, e, STREAM_DEFAULT) ||
        dnnl.attr_create(&attr) || dnnl.attr_scratchpad(attr, SCRATCHPAD_USER))
        return "oneDNN could not create its CPU engine";
    pthread_atfork(NULL, NULL, single_thread_in_child);
    engine = e;
    return NULL;
}

const char *hl_onednn_open(const char *path) {
    pthread_mutex_lock(&opening);
    const char *failure = engine ? NULL : load(path);
    pthread_mutex_unlock(&opening);
    return failure;
}

void hl_onednn_threads(int count) { threads = count; }

/* -- scratch memory of a thread, kept between calls -------------------------------------------- */
typedef struct {
    void *data;
    size_t size;
} arena;

static pthread_key_t arena_key;
static pthread_once_t arena_once = PTHREAD_ONCE_INIT;

static void free_arena(void *p) {
    arena *a = p;
    hl_release(a->data);
    free(a);
}

static void make_key(void) { pthread_key_create(&arena_key, free_arena); }

static void *arena_of(size_t need) {
    pthread_once(&arena_once, make_key);
    arena *a = pthread_getspecific(arena_key);
    if (!a) {
        a = calloc(1, sizeof *a);
        if (!a) return NULL;
        pthread_setspecific(arena_key, a);
    }
    if (a->size < need) {
        hl_release(a->data);
        a->data = hl_scratch(need);
        a->size = a->data ? need : 0;
    }
    return a->data;
}

/* -- one primitive with reorders around it ----------------------------------------------------- */
typedef struct {
    int arg, launch_arg, is_output;
    object user, inner; /* descriptors; inner is owned by the primitive descriptor */
    object reorder;     /* a primitive, NULL where the layouts agree */
    size_t offset;      /* of the inner buffer in the arena */
} operand;

typedef struct {
    hl_kernel base;
    object pd, primitive;
    operand operands[3];
    size_t scratchpad_offset, scratchpad_size, arena_size;
} library_kernel;

static size_t reserve(library_kernel *k, size_t size) {
    size_t at = k->arena_size;
    k->arena_size += (size + 63) / 64 * 64;
    return at;
}

static int make_reorder(operand *o, library_kernel *k) {
    object pd = NULL;
    object from = o->is_output ? o->inner : o->user, to = o->is_output ? o->user : o->inner;
    o->offset = reserve(k, dnnl.md_size(o->inner));
    int status = dnnl.reorder(&pd, from, engine, to, engine, NULL);
    if (!status) status = dnnl.primitive_create(&o->reorder, pd);
    if (pd) dnnl.pd_destroy(pd);
    return status;
}

static int run_reorder(const operand *o, object user, object inner) {
    object from = o->is_output ? inner : user, to = o->is_output ? user : inner;
    exec_arg args[2] = {{ARG_SRC, from}, {ARG_DST, to}};
    return dnnl.execute(o->reorder, stream, 2, args);
}

static int execute(const library_kernel *k, object *user, object *inner, object scratchpad) {
    exec_arg args[4];
    int status = 0, n = 0;
    for (int i = 0; i < 3; i++) {
        const operand *o = &k->operands[i];
        if (o->reorder && !o->is_output) status |= run_reorder(o, user[i], inner[i]);
        args[n++] = (exec_arg){o->arg, o->reorder ? inner[i] : user[i]};
    }
    if (scratchpad) args[n++] = (exec_arg){ARG_SCRATCHPAD, scratchpad};
    if (!status) status = dnnl.execute(k->primitive, stream, n, args);
    for (int i = 0; i < 3 && !status; i++) {
        const operand *o = &k->operands[i];
        if (o->reorder && o->is_output) status = run_reorder(o, user[i], inner[i]);
    }
    return status ? status : dnnl.stream_wait(stream);
}

static int run_library(const hl_kernel *self, const int64_t *args) {
    const library_kernel *k = (const library_kernel *)self;
    object user[3] = {0}, inner[3] = {0}, scratchpad = NULL;
    char *memory = k->arena_size ? arena_of(k->arena_size) : NULL;
    int status = 0;
    if (k->arena_size && !memory) return HL_NO_MEMORY;
    if (threads) dnnl.set_threads(threads);
    for (int i = 0; i < 3; i++) {
        const operand *o = &k->operands[i];
        status |= dnnl.memory_create(&user[i], o->user, engine, (void *)args[o->launch_arg]);
        if (o->reorder)
            status |= dnnl.memory_create(&inner[i], o->inner, engine, memory + o->offset);
    }
    if (k->scratchpad_size)
        status |= dnnl.memory_create(&scratchpad, dnnl.query_md(k->pd, QUERY_SCRATCHPAD, 0), engine,
                                     memory + k->scratchpad_offset);
    if (!status) status = execute(k, user, inner, scratchpad);
    for (int i = 0; i < 3; i++) {
        if (user[i]) dnnl.memory_destroy(user[i]);
        if (inner[i]) dnnl.memory_destroy(inner[i]);
    }
    if (scratchpad) dnnl.memory_destroy(scratchpad);
    hl_set_detail(status, 0, 0);
    return status ? HL_LIBRARY : HL_OK;
}

void hl_onednn_close(void *kernel) {
    library_kernel *k = kernel;
    if (!k) return;
    for (int i = 0; i < 3; i++) {
        if (k->operands[i].user) dnnl.md_destroy(k->operands[i].user);
        if (k->operands[i].reorder) dnnl.primitive_destroy(k->operands[i].reorder);
    }
    if (k->primitive) dnnl.primitive_destroy(k->primitive);
    if (k->pd) dnnl.pd_destroy(k->pd);
    free(k);
}

/* Completes a kernel whose descriptor and user layouts are set; NULL where oneDNN refuses. */
static void *finish(library_kernel *k, int status, const int *query) {
    if (!status) status = dnnl.primitive_create(&k->primitive, k->pd);
    for (int i = 0; i < 3 && !status; i++) {
        operand *o = &k->operands[i];
        o->inner = dnnl.query_md(k->pd, query[i], 0);
        if (!dnnl.md_equal(o->user, o->inner)) status = make_reorder(o, k);
    }
    if (status) {
        hl_onednn_close(k);
        return NULL;
    }
    k->scratchpad_size = dnnl.md_size(dnnl.query_md(k->pd, QUERY_SCRATCHPAD, 0));
    k->scratchpad_offset = reserve(k, k->scratchpad_size);
    k->base.run = run_library;
    return k;
}

static void set_operand(library_kernel *k, int i, int arg, int launch_arg, int is_output) {
    k->operands[i] = (operand){.arg = arg, .launch_arg = launch_arg, .is_output = is_output};
}

/* dims are those of c with the contracted extent appended; strides in elements, one per dimension
 * of each operand. A stride of 0 in the batch is a broadcast dimension of extent 1. */
void *hl_onednn_matmul(int ndim, const int64_t *dims, const int64_t *a, const int64_t *b) {
    static const int query[3] = {QUERY_SRC, QUERY_WEIGHTS, QUERY_DST};
    int64_t a_dims[MAX_DIMS], b_dims[MAX_DIMS], c[MAX_DIMS], size = 1;
    library_kernel *k = engine ? calloc(1, sizeof *k) : NULL;
    if (!k) return NULL;
    for (int d = ndim - 1; d >= 0; d--) {
        a_dims[d] = d < ndim - 2 && a[d] == 0 ? 1 : dims[d];
        b_dims[d] = d < ndim - 2 && b[d] == 0 ? 1 : dims[d];
        c[d] = size;
        size *= dims[d];
    }
    a_dims[ndim - 1] = b_dims[ndim - 2] = dims[ndim];
    set_operand(k, 0, ARG_SRC, 0, 0);
    set_operand(k, 1, ARG_WEIGHTS, 1, 0);
    set_operand(k, 2, ARG_DST, 2, 1);
    object *x = &k->operands[0].user, *w = &k->operands[1].user, *y = &k->operands[2].user;
    int status = dnnl.md_strided(x, ndim, a_dims, F32, a) ||
                 dnnl.md_strided(w, ndim, b_dims, F32, b) || dnnl.md_strided(y, ndim, dims, F32, c);
    if (!status) status = dnnl.matmul(&k->pd, engine, *x, *w, NULL, *y, attr);
    return finish(k, status, query);
}

/* -- convolution ------------------------------------------------------------------------------- */
typedef struct {
    int64_t x[5], w[6], y[5], step[3], dilation[3], left[3], right[3];
    int w_ndim;
} conv_dims;

/* Spatial dimensions are the last ones of the three slots; oneDNN counts dilation from 0. */
static conv_dims dims_of(const hl_conv *conv, int spatial) {
    conv_dims d = {.x = {conv->batch, conv->groups * conv->in_channels},
                   .y = {conv->batch, conv->groups * conv->out_channels}};
    int grouped = conv->groups > 1;
    if (grouped) d.w[0] = conv->groups;
    d.w[grouped] = conv->out_channels;
    d.w[grouped + 1] = conv->in_channels;
    d.w_ndim = 2 + spatial + grouped;
    for (int i = 0; i < spatial; i++) {
        int s = 3 - spatial + i;
        int64_t reach = (conv->kernel[s] - 1) * conv->dilation[s] + 1;
        d.x[2 + i] = conv->in[s];
        d.y[2 + i] = conv->out[s];
        d.w[2 + grouped + i] = conv->kernel[s];
        d.step[i] = conv->step[s];
        d.dilation[i] = conv->dilation[s] - 1;
        d.left[i] = conv->pad[s];
        d.right[i] = (conv->out[s] - 1) * conv->step[s] + reach - conv->in[s] - conv->pad[s];
    }
    return d;
}

static int dense(object *md, int ndim, const int64_t *dims) {
    int64_t strides[MAX_DIMS], size = 1;
    for (int d = ndim - 1; d >= 0; size *= dims[d--]) strides[d] = size;
    return dnnl.md_strided(md, ndim, dims, F32, strides);
}

/* A layout of the library's own choice: plain NCHW would select its slowest implementation. */
static int describe(library_kernel *k, const hl_conv *conv, const conv_dims *d,
                    const object *any) {
    object x = any[0], w = any[1], y = any[2], hint = NULL, *pd = &k->pd;
    int forward = conv->kind == 0;
    int status = dnnl.conv_forward(forward ? pd : &hint, engine, FORWARD, CONV_DIRECT, x, w, NULL,
                                   y, d->step, d->dilation, d->left, d->right, attr);
    if (conv->kind == 1 && !status)
        status = dnnl.conv_data(pd, engine, CONV_DIRECT, x, w, y, d->step, d->dilation, d->left,
                                d->right, hint, attr);
    if (conv->kind == 2 && !status)
        status = dnnl.conv_weights(pd, engine, CONV_DIRECT, x, w, NULL, y, d->step, d->dilation,
                                   d->left, d->right, hint, attr);
    if (hint) dnnl.pd_destroy(hint);
    return status;
}

void *hl_onednn_conv(const hl_conv *conv, int spatial) {
    static const int query[3][3] = {{QUERY_SRC, QUERY_WEIGHTS, QUERY_DST},
                                    {QUERY_DIFF_SRC, QUERY_WEIGHTS, QUERY_DIFF_DST},
                                    {QUERY_SRC, QUERY_DIFF_WEIGHTS, QUERY_DIFF_DST}};
    static const int arg[3][3] = {{ARG_SRC, ARG_WEIGHTS, ARG_DST},
                                  {ARG_DIFF_SRC, ARG_WEIGHTS, ARG_DIFF_DST},
                                  {ARG_SRC, ARG_DIFF_WEIGHTS, ARG_DIFF_DST}};
    static const int output[3] = {2, 0, 1}; /* which of x, w, y each kind writes */
    const int launch[3] = {conv->in_arg, conv->weight_arg, conv->out_arg};
    conv_dims d = dims_of(conv, spatial);
    const int64_t *dims[3] = {d.x, d.w, d.y};
    const int ndim[3] = {2 + spatial, d.w_ndim, 2 + spatial};
    object any[3] = {0};
    library_kernel *k = engine ? calloc(1, sizeof *k) : NULL;
    if (!k) return NULL;
    int status = 0;
    for (int i = 0; i < 3; i++) {
        set_operand(k, i, arg[conv->kind][i], launch[i], output[conv->kind] == i);
        status |= dense(&k->operands[i].user, ndim[i], dims[i]);
        status |= dnnl.md_tagged(&any[i], ndim[i], dims[i], F32, TAG_ANY);
    }
    if (!status) status = describe(k, conv, &d, any);
    for (int i = 0; i < 3; i++)
        if (any[i]) dnnl.md_destroy(any[i]);
    return finish(k, status, query[conv->kind]);
}
