/* Asks for memory it does not get, for ever. */
#include "hostile.h"
static volatile size_t got;
RUN {
  for (;;) got = __builtin_wasm_memory_grow(0, 60000);
}
