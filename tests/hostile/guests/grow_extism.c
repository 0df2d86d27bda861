/* Takes memory of Extism's, which the host keeps for it. */
#include "hostile.h"
static volatile uint32_t turns;
RUN {
  while (extism_alloc(8 << 20) != 0) turns++;
  __builtin_trap();
}
