/* Takes memory until it is refused. */
#include "hostile.h"
static volatile uint32_t turns;
RUN {
  while (__builtin_wasm_memory_grow(0, 128) != (size_t)-1) turns++;
  __builtin_trap();
}
