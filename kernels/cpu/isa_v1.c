#define HL_ISA hl_isa_v1
#include "isa_body.h"
