/* Which instruction set runs, the names of the tile operations, errors, memory. */
#define _GNU_SOURCE
#include "isa_targets.h"
#include "tile.h"
#include "tile_names.h"
#include <sys/mman.h>

const hl_isa_table *hl_kernels = &hl_isa_v1;
static int level = 1;
static _Thread_local int64_t detail[3];

static int machine_level(void) {
#ifdef HL_X86_LEVELS
    __builtin_cpu_init();
    if (__builtin_cpu_supports("x86-64-v4")) return 4;
    if (__builtin_cpu_supports("x86-64-v3")) return 3;
#endif
    return 1;
}

int hl_isa(void) { return level; }

int hl_set_isa(int wanted) {
    int best = machine_level();
    level = wanted < best ? wanted : best;
    hl_kernels = &hl_isa_v1;
#ifdef HL_X86_LEVELS
    if (level >= 3) hl_kernels = &hl_isa_v3;
    if (level >= 4) hl_kernels = &hl_isa_v4;
#endif
    level = level >= 4 ? 4 : level >= 3 ? 3 : 1;
    return level;
}

__attribute__((constructor)) static void choose_isa(void) { hl_set_isa(4); }

const char *hl_op_name(int op) {
    int count = (int)(sizeof hl_names / sizeof *hl_names);
    return op < 0 || op >= count ? NULL : hl_names[op];
}

int hl_run(const void *kernel, const char *args) {
    const hl_kernel *k = kernel;
    return k->run(k, (const int64_t *)(const void *)args);
}

void hl_set_detail(int64_t a, int64_t b, int64_t c) {
    detail[0] = a;
    detail[1] = b;
    detail[2] = c;
}

void hl_error_detail(int64_t *three) { memcpy(three, detail, sizeof detail); }

/* -- memory ------------------------------------------------------------------------------------ */
enum { HUGE_PAGE = 2 << 20 };

uintptr_t hl_alloc(size_t nbytes) {
    size_t align = nbytes >= HUGE_PAGE ? HUGE_PAGE : 64;
    void *p = NULL;
    if (posix_memalign(&p, align, nbytes ? nbytes : 1)) return 0;
#ifdef MADV_HUGEPAGE
    if (nbytes >= HUGE_PAGE) madvise(p, nbytes, MADV_HUGEPAGE); /* a hint: failing is no error */
#endif
    return (uintptr_t)p;
}

void hl_free(uintptr_t address) { free((void *)address); }

void *hl_scratch(size_t nbytes) { return (void *)hl_alloc(nbytes); }
void hl_release(void *scratch) { free(scratch); }

void hl_copy_in(uintptr_t dst, const char *src, size_t nbytes) { memcpy((void *)dst, src, nbytes); }

void hl_copy_out(char *dst, uintptr_t src, size_t nbytes) {
    memcpy(dst, (const void *)src, nbytes);
}

void hl_move(uintptr_t dst, uintptr_t src, size_t nbytes) {
    memmove((void *)dst, (const void *)src, nbytes);
}

/* Repeats the pattern, doubling what is already written. */
void hl_pattern(uintptr_t dst, size_t nbytes, const char *pattern, size_t period) {
    char *d = (char *)dst;
    size_t done = period < nbytes ? period : nbytes;
    memcpy(d, pattern, done);
    while (done < nbytes) {
        size_t step = done < nbytes - done ? done : nbytes - done;
        memcpy(d + done, d, step);
        done += step;
    }
}
