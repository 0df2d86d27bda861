/* Never ends and has no loop: a function that calls itself twice, to a depth of 80. */
#include "hostile.h"
static volatile uint32_t turns;
static __attribute__((noinline)) uint32_t branch(uint32_t n) {
  if (n == 0) return turns;
  return branch(n - 1) + branch(n - 1) * 3;
}
RUN { return (int)branch(80); }
