/* PK, the portable kernel dialect: one text for OpenCL C 1.2, CUDA C++ (NVRTC) and C++17 on the CPU.
 *
 * A kernel is `KERNEL name(PK_IDS GLOBAL const f32 *a, i64 a_offset, ...) { ... }`; kernels.pk.launch
 * fixes the order of its arguments. Indices are i64: a 32-bit index costs a CPU OpenCL compiler its
 * contiguous loads. bool is stored as b8 (0 or 1), f16 and bf16 as h16 bits, float8 as b8 bits,
 * complex numbers as pairs. Vector types and 64-bit atomics are absent where the language has none. The C++ branch is for tests: KERNEL bodies get their ids
 * through a hidden parameter, LOCALMEM is static because groups run one after another, and
 * pk_barrier() switches fibers. PK_HALF is defined for OpenCL devices that list cl_khr_fp16: some
 * compilers define the extension's own macro regardless.
 */
#if defined(__OPENCL_VERSION__)

#pragma OPENCL FP_CONTRACT OFF
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#ifdef PK_HALF
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif

typedef uchar b8;
typedef uchar u8;
typedef char i8;
typedef short i16;
typedef ushort u16;
typedef ushort h16;
typedef int i32;
typedef uint u32;
typedef long i64;
typedef ulong u64;
typedef float f32;
#ifdef cl_khr_fp64
typedef double f64;
#endif

#define KERNEL kernel void
#define DEVFN static inline
#define PK_IDS
#define GLOBAL global
#define LOCALMEM local
#define RESTRICT restrict
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define LID(d) ((i64)get_local_id(d))
#define GRP(d) ((i64)get_group_id(d))
#define LSZ(d) ((i64)get_local_size(d))
#define NGRP(d) ((i64)get_num_groups(d))
#define GID(d) ((i64)get_global_id(d))
#define GSZ(d) ((i64)get_global_size(d))
#define UNROLL _Pragma("unroll")
/* The loop's iterations touch distinct elements, or the very same ones in every operand. */
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define PK_INF INFINITY
#define PK_NAN NAN
#define FMA(a, b, c) fma(a, b, c)

DEVFN u32 pk_bits_f32(f32 v) { return as_uint(v); }
DEVFN f32 pk_from_bits_f32(u32 v) { return as_float(v); }
#ifdef PK_HALF
DEVFN f32 pk_h2f(h16 v) { return convert_float(as_half(v)); }
DEVFN h16 pk_f2h(f32 v) { return as_ushort(convert_half_rte(v)); }
#else
DEVFN f32 pk_h2f(h16 v) { return vload_half(0, (const half *)&v); }
DEVFN h16 pk_f2h(f32 v) {
    h16 bits;
    vstore_half_rte(v, 0, (half *)&bits);
    return bits;
}
#endif
#ifdef cl_khr_fp64
DEVFN u64 pk_bits_f64(f64 v) { return as_ulong(v); }
DEVFN f64 pk_from_bits_f64(u64 v) { return as_double(v); }
DEVFN h16 pk_d2h(f64 v) {
    h16 bits;
    vstore_half_rte(v, 0, (half *)&bits);
    return bits;
}
#endif

#define PK_CAS32(p, old, new) atomic_cmpxchg((volatile GLOBAL u32 *)(p), (u32)(old), (u32)(new))
#ifdef cl_khr_int64_base_atomics
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#define PK_CAS64(p, old, new) atom_cmpxchg((volatile GLOBAL u64 *)(p), (u64)(old), (u64)(new))
#endif

#elif defined(__CUDACC__)

#include <cuda_fp16.h>

typedef unsigned char b8;
typedef unsigned char u8;
typedef signed char i8;
typedef short i16;
typedef unsigned short u16;
typedef unsigned short h16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

#define KERNEL extern "C" __global__ void
#define DEVFN static __device__ __forceinline__
#define PK_IDS
#define GLOBAL
#define LOCALMEM __shared__
#define RESTRICT __restrict__
#define BARRIER() __syncthreads()
#define PK_XYZ(v, d) ((i64)((d) == 0 ? v.x : (d) == 1 ? v.y : v.z))
#define LID(d) PK_XYZ(threadIdx, d)
#define GRP(d) PK_XYZ(blockIdx, d)
#define LSZ(d) PK_XYZ(blockDim, d)
#define NGRP(d) PK_XYZ(gridDim, d)
#define GID(d) (GRP(d) * LSZ(d) + LID(d))
#define GSZ(d) (NGRP(d) * LSZ(d))
#define UNROLL _Pragma("unroll")
#define INDEPENDENT
#define PK_INF __int_as_float(0x7f800000)
#define PK_NAN __int_as_float(0x7fc00000)

DEVFN f32 FMA(f32 a, f32 b, f32 c) { return __fmaf_rn(a, b, c); }
DEVFN f64 FMA(f64 a, f64 b, f64 c) { return __fma_rn(a, b, c); }
DEVFN u32 pk_bits_f32(f32 v) { return __float_as_uint(v); }
DEVFN f32 pk_from_bits_f32(u32 v) { return __uint_as_float(v); }
DEVFN u64 pk_bits_f64(f64 v) { return (u64)__double_as_longlong(v); }
DEVFN f64 pk_from_bits_f64(u64 v) { return __longlong_as_double((i64)v); }
DEVFN f32 pk_h2f(h16 v) { return __half2float(__ushort_as_half(v)); }
DEVFN h16 pk_f2h(f32 v) { return __half_as_ushort(__float2half_rn(v)); }
DEVFN h16 pk_d2h(f64 v) { return __half_as_ushort(__double2half(v)); }

#define PK_CAS32(p, old, new) atomicCAS((u32 *)(p), (u32)(old), (u32)(new))
#define PK_CAS64(p, old, new) atomicCAS((u64 *)(p), (u64)(old), (u64)(new))

#else

#include <cmath>
#include <cstdint>
#include <cstring>

typedef uint8_t b8;
typedef uint8_t u8;
typedef int8_t i8;
typedef int16_t i16;
typedef uint16_t u16;
typedef uint16_t h16;
typedef int32_t i32;
typedef uint32_t u32;
typedef long i64;
typedef unsigned long u64;
typedef float f32;
typedef double f64;

struct pk_ids {
    i64 lid[3], grp[3], lsz[3], ngrp[3];
};
void pk_barrier();

#define KERNEL static void
#define DEVFN static inline
#define PK_IDS const pk_ids &pk,
#define GLOBAL
#define LOCALMEM static
#define RESTRICT __restrict__
#define BARRIER() pk_barrier()
#define LID(d) (pk.lid[d])
#define GRP(d) (pk.grp[d])
#define LSZ(d) (pk.lsz[d])
#define NGRP(d) (pk.ngrp[d])
#define GID(d) (GRP(d) * LSZ(d) + LID(d))
#define GSZ(d) (NGRP(d) * LSZ(d))
#define UNROLL
#define INDEPENDENT _Pragma("GCC ivdep")
#define PK_INF HUGE_VALF
#define PK_NAN NAN
#define FMA(a, b, c) std::fma(a, b, c)

template <class To, class From> static inline To pk_bit_cast(From v) {
    static_assert(sizeof(To) == sizeof(From), "same size");
    To out;
    std::memcpy(&out, &v, sizeof out);
    return out;
}
DEVFN u32 pk_bits_f32(f32 v) { return pk_bit_cast<u32>(v); }
DEVFN f32 pk_from_bits_f32(u32 v) { return pk_bit_cast<f32>(v); }
DEVFN u64 pk_bits_f64(f64 v) { return pk_bit_cast<u64>(v); }
DEVFN f64 pk_from_bits_f64(u64 v) { return pk_bit_cast<f64>(v); }

DEVFN f32 pk_h2f(h16 v) {
    const int exponent = v >> 10 & 31, fraction = v & 1023;
    f32 size = exponent == 0    ? std::ldexp((f32)fraction, -24)
               : exponent == 31 ? (fraction ? PK_NAN : PK_INF)
                                : std::ldexp((f32)(fraction + 1024), exponent - 25);
    return v & 0x8000 ? -size : size;
}
/* Rounds to the nearest multiple of the spacing at v's exponent, ties to even. */
DEVFN h16 pk_d2h(f64 v) {
    const h16 sign = std::signbit(v) ? 0x8000 : 0;
    const f64 size = std::fabs(v);
    if (size != size) return sign | 0x7e00;
    if (size >= 65520.0) return sign | 0x7c00;
    if (size == 0) return sign;
    int exponent = std::ilogb(size);
    if (exponent < -14) exponent = -14;
    const h16 steps = (h16)std::nearbyint(std::ldexp(size, 10 - exponent));
    return sign | (h16)(steps + ((exponent + 14) << 10));
}
DEVFN h16 pk_f2h(f32 v) { return pk_d2h((f64)v); }

#define PK_CAS32(p, old, new) __sync_val_compare_and_swap((u32 *)(p), (u32)(old), (u32)(new))
#define PK_CAS64(p, old, new) __sync_val_compare_and_swap((u64 *)(p), (u64)(old), (u64)(new))

using std::acos, std::acosh, std::asin, std::asinh, std::atan, std::atan2, std::atanh, std::ceil;
using std::copysign, std::cos, std::cosh, std::erf, std::erfc, std::exp, std::exp2, std::expm1;
using std::fabs, std::floor, std::fmax, std::fmin, std::fmod, std::hypot, std::ilogb, std::ldexp;
using std::lgamma, std::log, std::log10, std::log1p, std::log2, std::nextafter, std::pow, std::rint;
using std::sin, std::sinh, std::sqrt, std::tan, std::tanh, std::trunc;

#endif

typedef struct {
    f32 re, im;
} c64;
#if !defined(__OPENCL_VERSION__) || defined(cl_khr_fp64)
#define PK_F64
typedef struct {
    f64 re, im;
} c128;
DEVFN c128 pk_c64_to_c128(c64 v) {
    c128 wide;
    wide.re = v.re;
    wide.im = v.im;
    return wide;
}
DEVFN c64 pk_c128_to_c64(c128 v) {
    c64 narrow;
    narrow.re = (f32)v.re;
    narrow.im = (f32)v.im;
    return narrow;
}
#endif
/* what is moved, not computed with */
typedef struct {
    u64 low, high;
} w128;

DEVFN i64 pk_least(i64 a, i64 b) { return a < b ? a : b; }
