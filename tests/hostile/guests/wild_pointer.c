/* Hands the host offsets that are far outside of any memory. */
#include "hostile.h"
RUN {
  const uint64_t far = 0xfffffffffffffff0ull;
  extism_log_info(far);
  extism_var_set(far, far);
  awaken_call(far);
  awaken_state_get(1ull << 40);
  extism_output_set(far, 64);
  return 0;
}
