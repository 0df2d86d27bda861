/* Overwrites all of Extism's own bookkeeping, and then uses what depends on it. */
#include "hostile.h"
RUN {
  for (uint64_t at = 0; at < 65536; at += 8) extism_store_u64(at, 0xffffffffffffffffull);
  aw_call_info(&(aw_str){0});
  uint64_t at = extism_alloc(64);
  extism_free(at);
  extism_output_set(1, 1ull << 62);
  return 0;
}
