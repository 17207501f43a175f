#include "isa_targets.h"
#ifdef HL_X86_LEVELS
#pragma GCC target("arch=x86-64-v3")
#define HL_ISA hl_isa_v3
#include "isa_body.h"
#endif
