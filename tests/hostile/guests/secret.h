/* secret.h: asking the host for a secret. */
#ifndef SECRET_H
#define SECRET_H

#include "hostile.h"

AW_USER(awaken_secret_get) uint64_t awaken_secret_get(uint64_t request);

/* secret is the host's answer: {"value":"..."} or {"error":"..."}. */
AW_API aw_str secret_answer(const char *name) {
  aw_buf b = {0};
  aw_str answer = {0};
  aw_puts(&b, "{\"name\":");
  aw_put_json_string(&b, aw_cstr(name));
  aw_puts(&b, "}");
  aw_ask(awaken_secret_get, &b, &answer);
  return answer;
}

AW_API aw_str secret(const char *name) {
  aw_str value = {0};
  aw_json_text(aw_json_get(aw_json_parse(secret_answer(name)), "value"), &value);
  return value;
}

#endif
