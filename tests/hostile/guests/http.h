/* http.h: one HTTP request through Extism's own function, as any PDK makes it. */
#ifndef HTTP_H
#define HTTP_H

#include "hostile.h"

AW_ENV(http_request) uint64_t extism_http_request(uint64_t request, uint64_t body);
AW_ENV(http_status_code) uint32_t extism_http_status_code(void);

/* fetch answers with {"status":...,"bytes":...,"text":"..."}, the text as far as it
 * is plain. Headers is a JSON object. */
AW_API int fetch(const char *method, aw_str url, const char *headers) {
  aw_buf request = {0}, b = {0};
  aw_str body = {0};
  aw_puts(&request, "{\"method\":");
  aw_put_json_string(&request, aw_cstr(method));
  aw_puts(&request, ",\"url\":");
  aw_put_json_string(&request, url);
  aw_puts(&request, ",\"headers\":");
  aw_puts(&request, headers);
  aw_puts(&request, "}");
  uint64_t got = extism_http_request(aw_store(aw_view(&request)), 0);
  if (got != 0) aw_load(got, &body);
  aw_puts(&b, "{\"status\":");
  aw_put_u64(&b, extism_http_status_code());
  aw_puts(&b, ",\"bytes\":");
  aw_put_u64(&b, body.n);
  aw_puts(&b, ",\"text\":");
  size_t n = 0;
  while (n < body.n && body.p[n] >= ' ' && body.p[n] < 0x7f) n++;
  aw_put_json_string(&b, (aw_str){body.p, n});
  aw_puts(&b, "}");
  return aw_finish(&b);
}

#endif
