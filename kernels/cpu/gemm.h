#pragma once
/* Blocked matrix products after Goto and van de Geijn, ACM TOMS 34(3), 2008: panels of both
 * operands are packed, which also takes any strides, and a register tile of MR x NR runs over
 * them. */
#include "isa_targets.h"
#include "tile.h"
#ifdef __FMA__
#include <immintrin.h>
#endif

#define T float
#define S f32
#define ARITH float
#if defined(__AVX512F__)
#define MULTIPLY_ADD(a, b, c) ((gemm_vec_f32)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#elif defined(__FMA__)
#define MULTIPLY_ADD(a, b, c) ((gemm_vec_f32)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#endif
#include "gemm_typed.h"

#define T double
#define S f64
#define ARITH double
#if defined(__AVX512F__)
#define MULTIPLY_ADD(a, b, c) \
    ((gemm_vec_f64)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#elif defined(__FMA__)
#define MULTIPLY_ADD(a, b, c) \
    ((gemm_vec_f64)_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#endif
#include "gemm_typed.h"

/* unsigned arithmetic wraps */
#define T uint8_t
#define S u8
#define ARITH uint8_t
#include "gemm_typed.h"
#define T int32_t
#define S i32
#define ARITH uint32_t
#include "gemm_typed.h"
#define T int64_t
#define S i64
#define ARITH uint64_t
#include "gemm_typed.h"
