#pragma once
/* System headers come before the pragmas, so that their inline functions keep the baseline. */
#include <complex.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define HL_X86_LEVELS 1
#endif
