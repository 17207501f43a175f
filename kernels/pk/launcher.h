/* Runs a PK kernel as C++: groups in order; the items of a group in order, or as fibers (ucontext)
 * where the kernel has barriers. Every fiber must reach the same barriers.
 */
#ifdef PK_FIBERS
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <ucontext.h>
#include <vector>

static const size_t PK_STACK = 64 * 1024;

struct pk_fiber {
    ucontext_t context;
    std::vector<char> stack;
    bool done;
};
static std::vector<pk_fiber> pk_fibers;
static ucontext_t pk_scheduler;
static size_t pk_current;
static std::function<void(size_t)> pk_item;

void pk_barrier() { swapcontext(&pk_fibers[pk_current].context, &pk_scheduler); }

static void pk_start() {
    pk_item(pk_current);
    pk_fibers[pk_current].done = true;
    swapcontext(&pk_fibers[pk_current].context, &pk_scheduler);
}

static void pk_run_group(size_t items, bool reverse) {
    pk_fibers.resize(items);
    for (pk_fiber &fiber : pk_fibers) {
        fiber.stack.resize(PK_STACK);
        fiber.done = false;
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.data();
        fiber.context.uc_stack.ss_size = PK_STACK;
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, pk_start, 0);
    }
    for (size_t finished = 0; finished < items;) {
        finished = 0;
        for (size_t i = 0; i < items; i++) {
            pk_current = reverse ? items - 1 - i : i;
            swapcontext(&pk_scheduler, &pk_fibers[pk_current].context);
            finished += pk_fibers[pk_current].done;
        }
        if (finished != 0 && finished != items) {
            std::fprintf(stderr, "pk: %zu of %zu items left at a barrier\n", items - finished, items);
            std::abort();
        }
    }
}
#endif

template <class Kernel>
static void pk_launch(const i64 groups[3], const i64 local[3], bool reverse, Kernel kernel) {
    const i64 items = local[0] * local[1] * local[2];
    const i64 all = groups[0] * groups[1] * groups[2];
    for (i64 group = 0; group < all; group++) {
        const auto item = [&](size_t i) {
            const i64 n = (i64)i;
            pk_ids pk;
            for (int d = 0; d < 3; d++) {
                pk.lsz[d] = local[d];
                pk.ngrp[d] = groups[d];
            }
            pk.lid[0] = n % local[0];
            pk.lid[1] = n / local[0] % local[1];
            pk.lid[2] = n / (local[0] * local[1]);
            pk.grp[0] = group % groups[0];
            pk.grp[1] = group / groups[0] % groups[1];
            pk.grp[2] = group / (groups[0] * groups[1]);
            kernel(pk);
        };
#ifdef PK_FIBERS
        pk_item = item;
        pk_run_group((size_t)items, reverse);
#else
        for (i64 i = 0; i < items; i++) item((size_t)(reverse ? items - 1 - i : i));
#endif
    }
}
