#pragma once
#include "scalar.h"
#include "tile.h"

#define T uint8_t
#define S u8
#define IS_NAN(a) 0
#define EITHER_NAN(a, b) 0
#define NAN_VALUE 0
#include "tile_reduce_typed.h"
#define T int32_t
#define S i32
#define IS_NAN(a) 0
#define EITHER_NAN(a, b) 0
#define NAN_VALUE 0
#include "tile_reduce_typed.h"
#define T int64_t
#define S i64
#define SUM_T uint64_t
#define SUMS
#define IS_NAN(a) 0
#define EITHER_NAN(a, b) 0
#define NAN_VALUE 0
#include "tile_reduce_typed.h"
#define T uint64_t
#define S u64
#define SUM_T uint64_t
#define SUMS
#define IS_NAN(a) 0
#define EITHER_NAN(a, b) 0
#define NAN_VALUE 0
#include "tile_reduce_typed.h"
#define T float
#define S f32
#define SUM_T float
#define SUMS
#define IS_NAN(a) ((a) != (a))
#define EITHER_NAN(a, b) __builtin_isunordered(a, b)
#define NAN_VALUE NAN
#include "tile_reduce_typed.h"
#define T double
#define S f64
#define SUM_T double
#define SUMS
#define IS_NAN(a) ((a) != (a))
#define EITHER_NAN(a, b) __builtin_isunordered(a, b)
#define NAN_VALUE NAN
#include "tile_reduce_typed.h"
