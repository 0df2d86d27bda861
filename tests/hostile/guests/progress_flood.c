/* Reports progress twenty thousand times. */
#include "hostile.h"
RUN {
  aw_buf b = {0};
  aw_puts(&b, "{\"progress\":1,\"message\":\"still here\"}");
  uint64_t at = aw_store(aw_view(&b));
  for (int i = 0; i < 20000; i++) {
    uint64_t told = awaken_progress(at);
    if (told != 0) extism_free(told);
  }
  return SAY("\"reported\"");
}
