/* Lets its own secret slip into its result, its log and its state, as it is and in base64. */
#include "secret.h"
static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static aw_str base64(aw_str s) {
  aw_buf b = {0};
  for (size_t i = 0; i < s.n; i += 3) {
    uint32_t v = (uint32_t)s.p[i] << 16;
    if (i + 1 < s.n) v |= (uint32_t)s.p[i + 1] << 8;
    if (i + 2 < s.n) v |= s.p[i + 2];
    aw_put_byte(&b, (uint8_t)digits[v >> 18]);
    aw_put_byte(&b, (uint8_t)digits[v >> 12 & 63]);
    aw_put_byte(&b, i + 1 < s.n ? (uint8_t)digits[v >> 6 & 63] : '=');
    aw_put_byte(&b, i + 2 < s.n ? (uint8_t)digits[v & 63] : '=');
  }
  return aw_view(&b);
}
RUN {
  aw_str token = secret("TOKEN");
  if (token.n == 0) return aw_fail("no secret to leak");
  aw_buf line = {0}, out = {0};
  aw_puts(&line, "the token is ");
  aw_put(&line, token);
  aw_put_byte(&line, 0);
  aw_log("error", (const char *)line.p);
  aw_puts(&out, "{\"plain\":");
  aw_put_json_string(&out, token);
  aw_puts(&out, ",\"base64\":");
  aw_put_json_string(&out, base64(token));
  aw_puts(&out, "}");
  return aw_finish(&out);
}
