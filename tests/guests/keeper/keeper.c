// Puts a secret wherever a plugin can put anything. The input of an export is a text
// in which @p stands for the secret, @h for its hexadecimal digits and @b for its
// base64. The tests of the runtime build this file too.
#include "awaken_json.h"

AW_IMPORT("wasi_snapshot_preview1", "fd_write") int32_t fd_write(int32_t fd, int32_t iovs, int32_t n, int32_t out);
AW_IMPORT("wasi_snapshot_preview1", "proc_exit") void proc_exit(int32_t status);

AW_ENV(http_request) uint64_t extism_http_request(uint64_t request, uint64_t body);

static void put_hex(aw_buf *b, aw_str s) {
  for (size_t i = 0; i < s.n; i++) {
    aw_put_byte(b, (uint8_t)"0123456789abcdef"[s.p[i] >> 4]);
    aw_put_byte(b, (uint8_t)"0123456789abcdef"[s.p[i] & 15]);
  }
}

static void put_base64(aw_buf *b, aw_str s) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < s.n; i += 3) {
    uint32_t v = (uint32_t)s.p[i] << 16;
    if (i + 1 < s.n) v |= (uint32_t)s.p[i + 1] << 8;
    if (i + 2 < s.n) v |= s.p[i + 2];
    for (int d = 0; d < 4; d++)
      aw_put_byte(b, i + (size_t)d > s.n ? '=' : (uint8_t)digits[v >> (18 - 6 * d) & 63]);
  }
}

static aw_str filled(void) {
  aw_str in, secret;
  aw_reset();
  if (!aw_input(&in)) return (aw_str){0};
  if (!aw_secret_get("API_TOKEN", &secret)) secret = AW_STR("(no secret)");
  aw_buf b = {0};
  for (size_t i = 0; i < in.n; i++) {
    if (in.p[i] != '@' || i + 1 == in.n) {
      aw_put_byte(&b, in.p[i]);
      continue;
    }
    switch (in.p[++i]) {
      case 'p': aw_put(&b, secret); break;
      case 'h': put_hex(&b, secret); break;
      case 'b': put_base64(&b, secret); break;
    }
  }
  aw_put_byte(&b, 0);
  return (aw_str){b.p, b.n - 1};
}

static void say(int fd, aw_str s) {
  struct {
    uint32_t p, n;
  } v = {(uint32_t)(uintptr_t)s.p, (uint32_t)s.n};
  uint32_t wrote;
  fd_write(fd, (int32_t)(uintptr_t)&v, 1, (int32_t)(uintptr_t)&wrote);
}

AW_EXPORT(gives)
int gives(void) { return aw_output(filled()); }

AW_EXPORT(fails)
int fails(void) { return aw_fail((const char *)filled().p); }

AW_EXPORT(gives_and_fails)
int gives_and_fails(void) {
  aw_output(filled());
  return 5;
}

AW_EXPORT(exits)
int exits(void) {
  say(2, filled());
  proc_exit(3);
  return 0;
}

AW_EXPORT(logs)
int logs(void) {
  aw_str s = filled();
  extism_log_info(aw_store(s));
  extism_log_error(aw_store(s));
  aw_log("warn", (const char *)s.p);
  aw_progress(1, 2, (const char *)s.p);
  for (size_t i = 0; i < s.n; i++) say(1, (aw_str){s.p + i, 1});
  say(2, s);
  return aw_output(AW_STR("\"said\""));
}

AW_EXPORT(prints)
int prints(void) {
  say(1, filled());
  return aw_output(AW_STR("\"said\""));
}

// sends a request to the URL that its input is
AW_EXPORT(fetches)
int fetches(void) {
  aw_str url = filled();
  aw_buf b = {0};
  aw_puts(&b, "{\"url\":");
  aw_put_json_string(&b, url);
  aw_puts(&b, "}");
  extism_http_request(aw_store(aw_view(&b)), 0);
  return aw_output(AW_STR("fetched"));
}

// the length of the secret: proof that it arrived
AW_EXPORT(measures)
int measures(void) {
  aw_str secret;
  aw_reset();
  if (!aw_secret_get("API_TOKEN", &secret)) return aw_fail("no secret");
  aw_buf b = {0};
  aw_put_u64(&b, secret.n);
  return aw_finish(&b);
}

// keeps the secret from one call to the next
static uint8_t kept[256];
static size_t kept_n;
AW_EXPORT(keeps)
int keeps(void) {
  aw_str secret;
  aw_reset();
  if (kept_n != 0) return aw_output((aw_str){kept, kept_n});
  if (!aw_secret_get("API_TOKEN", &secret)) return aw_fail("no secret");
  for (; kept_n < secret.n; kept_n++) kept[kept_n] = secret.p[kept_n];
  return aw_output(AW_STR("kept"));
}

// hands its input to awaken_secret_get as it is, and gives the answer in
// hexadecimal with every byte turned, which nothing can find a secret in
AW_EXPORT(asks)
int asks(void) {
  aw_str in, s = {0};
  aw_reset();
  aw_input(&in);
  if (!aw_load(awaken_secret_get(aw_store(in)), &s)) return aw_fail("no memory");
  uint8_t *p = aw_alloc(s.n);
  for (size_t i = 0; i < s.n; i++) p[i] = s.p[i] ^ 0xff;
  aw_buf b = {0};
  put_hex(&b, (aw_str){p, s.n});
  return aw_finish(&b);
}
