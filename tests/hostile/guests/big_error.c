/* Fails with a text of 2 MiB. */
#include "hostile.h"
RUN {
  uint64_t bytes = 2u << 20, at = extism_alloc(bytes);
  for (uint64_t i = 0; i < bytes; i += 8) extism_store_u64(at + i, 0x2e2e2e2e2e2e2e2eull);
  extism_error_set(at);
  return 1;
}
