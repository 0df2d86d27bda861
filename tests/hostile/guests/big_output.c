/* Answers with 17 MiB. They are never written, so of zero bytes: valid text, too long by 1 MiB. */
#include "hostile.h"
RUN {
  uint64_t bytes = 17u << 20, at = extism_alloc(bytes);
  if (at == 0) return aw_fail("out of memory");
  extism_output_set(at, bytes);
  return 0;
}
