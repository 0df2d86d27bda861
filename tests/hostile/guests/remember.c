/* Keeps what a call gave it, wherever it can, and says what it finds of calls before. */
#include "hostile.h"
static uint8_t kept[64];
static size_t kept_bytes;
RUN {
  aw_str found = {kept, kept_bytes}, var = {0}, now = argument("keep");
  uint64_t at = extism_var_get(aw_store(AW_STR("kept")));
  if (at != 0) aw_load(at, &var);
  aw_buf b = {0};
  aw_puts(&b, "{\"static\":");
  aw_put_json_string(&b, found);
  aw_puts(&b, ",\"var\":");
  aw_put_json_string(&b, var);
  aw_puts(&b, "}");
  for (kept_bytes = 0; kept_bytes < now.n && kept_bytes < sizeof kept; kept_bytes++) kept[kept_bytes] = now.p[kept_bytes];
  extism_var_set(aw_store(AW_STR("kept")), aw_store(now));
  return aw_finish(&b);
}
