/* hostile.h: what the hostile guests share. Each exports one tool, "run". */
#ifndef HOSTILE_H
#define HOSTILE_H

#include "awaken_json.h"

#define RUN         \
  int run(void);    \
  AW_EXPORT(run)    \
  int run(void)

#define WASI(name) AW_IMPORT("wasi_snapshot_preview1", #name)
#define SAY(literal) aw_output(AW_STR(literal))

/* argument copies a string from the arguments; empty when it is not there. */
AW_API aw_str argument(const char *key) {
  aw_str in, out = {NULL, 0};
  if (aw_input(&in)) aw_json_text(aw_json_get(aw_json_parse(in), key), &out);
  return out;
}

/* text answers with a JSON string. */
AW_API int text(aw_str s) {
  aw_buf b = {0};
  aw_put_json_string(&b, s);
  return aw_finish(&b);
}

#endif
