/* Keeps 64 variables of 1 MiB in the host. */
#include "hostile.h"
RUN {
  uint8_t key[1];
  for (int i = 0; i < 64; i++) {
    key[0] = (uint8_t)(' ' + i);
    uint64_t value = extism_alloc(1 << 20);
    if (value == 0) __builtin_trap();
    extism_var_set(aw_store((aw_str){key, 1}), value);
    extism_free(value);
  }
  return SAY("\"kept\"");
}
