/* Calls itself for ever. No compiler can make a loop of this. */
#include "hostile.h"
static volatile uint32_t turns;
static __attribute__((noinline)) uint32_t dive(uint32_t n) {
  if (n == UINT32_MAX) return turns;
  return (dive(n + 1) * 31 + n) ^ turns;
}
RUN { return dive(0) == 0; }
