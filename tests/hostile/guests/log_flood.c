/* Logs for as long as it may, 60 KiB a line. */
#include "hostile.h"
static char line[60000];
RUN {
  for (size_t i = 0; i + 1 < sizeof line; i++) line[i] = 'f';
  uint64_t at = aw_store(aw_cstr(line));
  for (int i = 0; i < 200000; i++) extism_log_error(at);
  return SAY("\"logged\"");
}
