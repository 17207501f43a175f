#include "isa_targets.h"
#ifdef HL_X86_LEVELS
#pragma GCC target("arch=x86-64-v4,prefer-vector-width=512")
#define HL_ISA hl_isa_v4
#include "isa_body.h"
#endif
