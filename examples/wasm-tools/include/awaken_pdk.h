/* awaken_pdk.h: what a plugin with abi = "extism" needs, for freestanding C.
 *
 * A header over the raw Extism ABI (module "extism:host/env") and the host's own
 * functions (module "extism:host/user"). Include it from one source file per
 * module, and build with, for example,
 *
 *   clang --target=wasm32 -std=c11 -O2 -ffreestanding -fno-builtin -nostdlib \
 *         -Wl,--no-entry -Wl,--strip-all -Wl,-z,stack-size=65536 -Wl,--stack-first
 *
 * An exported tool takes no parameters and returns an int: 0 for success, any
 * other number for failure. A failing tool says why with aw_fail.
 *
 *   AW_EXPORT(greet)
 *   int greet(void) {
 *     aw_str name;
 *     if (!aw_input(&name)) return aw_fail("out of memory");
 *     aw_buf out = {0};
 *     aw_puts(&out, "Hello, ");
 *     aw_put(&out, name);
 *     return aw_finish(&out);
 *   }
 *
 * Two memories exist: the module's own, where pointers point, and Extism's, where
 * the offsets of the imported functions point. The functions below copy between
 * them; use the imports directly only where that is not enough.
 *
 * No call here is safe for two threads; a module has one.
 */
#ifndef AWAKEN_PDK_H
#define AWAKEN_PDK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __wasi__
#include <stdlib.h>
#include <string.h>
#endif

#define AW_EXPORT(name) __attribute__((export_name(#name)))
#define AW_IMPORT(module, name) __attribute__((import_module(module), import_name(name)))
#define AW_ENV(name) AW_IMPORT("extism:host/env", #name)
#define AW_USER(name) AW_IMPORT("extism:host/user", #name)
#define AW_API static __attribute__((unused))

/* ---- the raw ABI: every uint64_t is an offset or a length in Extism's memory */

AW_ENV(input_length) uint64_t extism_input_length(void);
AW_ENV(input_load_u8) uint32_t extism_input_load_u8(uint64_t at);
AW_ENV(input_load_u64) uint64_t extism_input_load_u64(uint64_t at);
AW_ENV(alloc) uint64_t extism_alloc(uint64_t bytes); /* 0: no memory */
AW_ENV(free) void extism_free(uint64_t offset);
AW_ENV(length) uint64_t extism_length(uint64_t offset);
AW_ENV(load_u8) uint32_t extism_load_u8(uint64_t offset);
AW_ENV(load_u64) uint64_t extism_load_u64(uint64_t offset);
AW_ENV(store_u8) void extism_store_u8(uint64_t offset, uint32_t value);
AW_ENV(store_u64) void extism_store_u64(uint64_t offset, uint64_t value);
AW_ENV(output_set) void extism_output_set(uint64_t offset, uint64_t bytes);
AW_ENV(error_set) void extism_error_set(uint64_t offset);
AW_ENV(config_get) uint64_t extism_config_get(uint64_t key); /* 0: not set */
AW_ENV(var_get) uint64_t extism_var_get(uint64_t key);       /* 0: not set */
AW_ENV(var_set) void extism_var_set(uint64_t key, uint64_t value);
AW_ENV(log_trace) void extism_log_trace(uint64_t text);
AW_ENV(log_debug) void extism_log_debug(uint64_t text);
AW_ENV(log_info) void extism_log_info(uint64_t text);
AW_ENV(log_warn) void extism_log_warn(uint64_t text);
AW_ENV(log_error) void extism_log_error(uint64_t text);

/* The host's functions: the offset of a JSON request in, the offset of a JSON
 * answer out; 0 where there is nothing to say. A request that cannot be answered
 * gets {"error":"..."}.
 *
 *   awaken_call       {}                                      -> {"run","batch","operation","attempt","tool"}
 *   awaken_state_get  {"key":"counter"}                       -> {"found":true,"value":3} or {"found":false}
 *   awaken_secret_get {"name":"API_TOKEN"}                    -> {"value":"..."}; aw_secret_get in awaken_json.h reads it
 *   awaken_log        {"level":"info","message":"..."}        levels: debug, info, warn, error
 *   awaken_progress   {"progress":1,"total":4,"message":"..."}
 *   awaken_exec       {"argv":["grep","-n","x","notes.txt"]}  -> {"exit_code":0,"stdout":"..."}; only for target = "sandbox"
 */
AW_USER(awaken_call) uint64_t awaken_call(uint64_t request);
AW_USER(awaken_state_get) uint64_t awaken_state_get(uint64_t request);
AW_USER(awaken_secret_get) uint64_t awaken_secret_get(uint64_t request);
AW_USER(awaken_log) uint64_t awaken_log(uint64_t request);
AW_USER(awaken_progress) uint64_t awaken_progress(uint64_t request);
AW_USER(awaken_exec) uint64_t awaken_exec(uint64_t request);

/* ---- memory of the module */

/* aw_str is a run of bytes that somebody else owns; it may hold zero bytes. */
typedef struct {
  const uint8_t *p;
  size_t n;
} aw_str;

#define AW_STR(literal) ((aw_str){(const uint8_t *)(literal), sizeof(literal) - 1})

AW_API size_t aw_strlen(const char *s) {
  size_t n = 0;
  while (s[n] != 0) n++;
  return n;
}

AW_API aw_str aw_cstr(const char *s) { return (aw_str){(const uint8_t *)s, aw_strlen(s)}; }

AW_API bool aw_equal(aw_str a, aw_str b) {
  if (a.n != b.n) return false;
  for (size_t i = 0; i < a.n; i++)
    if (a.p[i] != b.p[i]) return false;
  return true;
}

#ifndef __wasi__
/* Compilers emit calls to these for copies they do not inline. */
__attribute__((weak)) void *memcpy(void *to, const void *from, size_t n) {
  uint8_t *t = to;
  const uint8_t *f = from;
  for (size_t i = 0; i < n; i++) t[i] = f[i];
  return to;
}

__attribute__((weak)) void *memset(void *to, int value, size_t n) {
  uint8_t *t = to;
  for (size_t i = 0; i < n; i++) t[i] = (uint8_t)value;
  return to;
}

#define AW_PAGE 65536u
extern unsigned char __heap_base;
static uintptr_t aw_heap_top;
#endif

/* aw_alloc returns n bytes aligned to 8, or NULL when the module may not grow
 * further. There is no free: with isolation "call" the memory ends with the call.
 * A longer-lived instance calls aw_reset first thing in every export. */
AW_API void *aw_alloc(size_t n) {
#ifdef __wasi__
  return malloc(n == 0 ? 1 : n);
#else
  if (aw_heap_top == 0) aw_heap_top = ((uintptr_t)&__heap_base + 7u) & ~(uintptr_t)7u;
  uint64_t end = ((uint64_t)aw_heap_top + n + 7u) & ~(uint64_t)7u;
  uint64_t have = (uint64_t)__builtin_wasm_memory_size(0) * AW_PAGE;
  if (end > UINT32_MAX) return NULL;
  if (end > have) {
    size_t pages = (size_t)((end - have + AW_PAGE - 1) / AW_PAGE);
    if (__builtin_wasm_memory_grow(0, pages) == (size_t)-1) return NULL;
  }
  void *p = (void *)aw_heap_top;
  aw_heap_top = (uintptr_t)end;
  return p;
#endif
}

#ifndef __wasi__
/* aw_reset gives all of aw_alloc's memory back. Every aw_str and aw_buf made
 * before it is void. */
AW_API void aw_reset(void) { aw_heap_top = 0; }
#endif

/* ---- between the two memories */

/* aw_load copies the block at an offset. Offset 0 is the empty string. False: no
 * memory. */
AW_API bool aw_load(uint64_t offset, aw_str *out) {
  uint64_t n = offset == 0 ? 0 : extism_length(offset);
  *out = (aw_str){NULL, 0};
  if (n > SIZE_MAX) return false;
  uint8_t *p = aw_alloc((size_t)n);
  if (p == NULL) return false;
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t w = extism_load_u64(offset + i);
    for (int b = 0; b < 8; b++) p[i + b] = (uint8_t)(w >> (8 * b));
  }
  for (; i < n; i++) p[i] = (uint8_t)extism_load_u8(offset + i);
  *out = (aw_str){p, (size_t)n};
  return true;
}

/* aw_store copies bytes out. 0: no memory, or nothing to store. */
AW_API uint64_t aw_store(aw_str s) {
  if (s.n == 0) return 0;
  uint64_t offset = extism_alloc(s.n);
  if (offset == 0) return 0;
  size_t i = 0;
  for (; i + 8 <= s.n; i += 8) {
    uint64_t w = 0;
    for (int b = 0; b < 8; b++) w |= (uint64_t)s.p[i + b] << (8 * b);
    extism_store_u64(offset + i, w);
  }
  for (; i < s.n; i++) extism_store_u8(offset + i, s.p[i]);
  return offset;
}

/* aw_input copies the encoded input of the call. False: no memory. */
AW_API bool aw_input(aw_str *out) {
  uint64_t n = extism_input_length();
  *out = (aw_str){NULL, 0};
  if (n > SIZE_MAX) return false;
  uint8_t *p = aw_alloc((size_t)n);
  if (p == NULL) return false;
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t w = extism_input_load_u64(i);
    for (int b = 0; b < 8; b++) p[i + b] = (uint8_t)(w >> (8 * b));
  }
  for (; i < n; i++) p[i] = (uint8_t)extism_input_load_u8(i);
  *out = (aw_str){p, (size_t)n};
  return true;
}

/* aw_fail sets the error text of the call and returns 1, the status to return. */
AW_API int aw_fail(const char *why) {
  extism_error_set(aw_store(aw_cstr(why)));
  return 1;
}

/* aw_output sets the output of the call and returns the status to return. */
AW_API int aw_output(aw_str s) {
  uint64_t offset = aw_store(s);
  if (offset == 0 && s.n != 0) return aw_fail("out of memory");
  extism_output_set(offset, s.n);
  return 0;
}

/* ---- text that grows */

/* aw_buf starts as {0}. A write that finds no memory sets failed; later writes
 * are then dropped, and aw_finish fails the call. */
typedef struct {
  uint8_t *p;
  size_t n, room;
  bool failed;
} aw_buf;

AW_API aw_str aw_view(const aw_buf *b) { return (aw_str){b->p, b->n}; }

AW_API void aw_put(aw_buf *b, aw_str s) {
  if (b->failed || s.n == 0) return;
  if (s.n > b->room - b->n) {
    if (s.n > SIZE_MAX / 4 || b->n > SIZE_MAX / 4) {
      b->failed = true;
      return;
    }
    size_t room = 2 * (b->n + s.n);
    if (room < 256) room = 256;
    uint8_t *p = aw_alloc(room);
    if (p == NULL) {
      b->failed = true;
      return;
    }
    for (size_t i = 0; i < b->n; i++) p[i] = b->p[i];
    b->p = p;
    b->room = room;
  }
  for (size_t i = 0; i < s.n; i++) b->p[b->n + i] = s.p[i];
  b->n += s.n;
}

AW_API void aw_puts(aw_buf *b, const char *s) { aw_put(b, aw_cstr(s)); }

AW_API void aw_put_byte(aw_buf *b, uint8_t c) { aw_put(b, (aw_str){&c, 1}); }

AW_API void aw_put_u64(aw_buf *b, uint64_t v) {
  uint8_t digits[20];
  size_t at = sizeof digits;
  do {
    digits[--at] = (uint8_t)('0' + v % 10);
    v /= 10;
  } while (v != 0);
  aw_put(b, (aw_str){digits + at, sizeof digits - at});
}

AW_API void aw_put_i64(aw_buf *b, int64_t v) {
  if (v < 0) aw_put_byte(b, '-');
  aw_put_u64(b, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

/* aw_put_json_string writes s, which must be UTF-8, as a quoted JSON string. */
AW_API void aw_put_json_string(aw_buf *b, aw_str s) {
  static const char hex[] = "0123456789abcdef";
  aw_put_byte(b, '"');
  size_t from = 0;
  for (size_t i = 0; i < s.n; i++) {
    uint8_t c = s.p[i];
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    aw_put(b, (aw_str){s.p + from, i - from});
    from = i + 1;
    if (c >= 0x20) {
      uint8_t two[2] = {'\\', c};
      aw_put(b, (aw_str){two, 2});
    } else {
      uint8_t six[6] = {'\\', 'u', '0', '0', (uint8_t)hex[c >> 4], (uint8_t)hex[c & 15]};
      aw_put(b, (aw_str){six, 6});
    }
  }
  aw_put(b, (aw_str){s.p + from, s.n - from});
  aw_put_byte(b, '"');
}

/* aw_finish makes the buffer the output of the call and returns the status. */
AW_API int aw_finish(const aw_buf *b) {
  if (b->failed) return aw_fail("out of memory");
  return aw_output(aw_view(b));
}

/* aw_fail_buf is aw_fail with a text put together in a buffer. */
AW_API int aw_fail_buf(const aw_buf *b) {
  if (b->failed || b->n == 0) return aw_fail("out of memory");
  extism_error_set(aw_store(aw_view(b)));
  return 1;
}

/* ---- the host */

/* aw_config reads one value of [plugin.config]. False: not set, or no memory. */
AW_API bool aw_config(const char *key, aw_str *out) {
  uint64_t offset = extism_config_get(aw_store(aw_cstr(key)));
  *out = (aw_str){NULL, 0};
  return offset != 0 && aw_load(offset, out);
}

/* aw_ask sends a request to one of the host's functions, loads the answer, and
 * gives both blocks of Extism's memory back. False: no memory. */
AW_API bool aw_ask(uint64_t (*function)(uint64_t), const aw_buf *request, aw_str *answer) {
  *answer = (aw_str){NULL, 0};
  uint64_t asked = request->failed ? 0 : aw_store(aw_view(request));
  if (asked == 0) return false;
  uint64_t told = function(asked);
  extism_free(asked);
  bool ok = aw_load(told, answer);
  if (told != 0) extism_free(told);
  return ok;
}

/* aw_call_info loads the JSON that says which call this is. False: no memory. */
AW_API bool aw_call_info(aw_str *out) {
  aw_buf b = {0};
  aw_puts(&b, "{}");
  return aw_ask(awaken_call, &b, out);
}

/* aw_state_get loads the host's answer about a declared state key, as published
 * before this batch: {"found":...,"value":...}. False: no memory. */
AW_API bool aw_state_get(const char *key, aw_str *out) {
  aw_buf b = {0};
  aw_puts(&b, "{\"key\":");
  aw_put_json_string(&b, aw_cstr(key));
  aw_puts(&b, "}");
  return aw_ask(awaken_state_get, &b, out);
}

/* aw_log sends one line to the host's log. It cannot fail the call. */
AW_API void aw_log(const char *level, const char *message) {
  aw_buf b = {0};
  aw_str answer;
  aw_puts(&b, "{\"level\":");
  aw_put_json_string(&b, aw_cstr(level));
  aw_puts(&b, ",\"message\":");
  aw_put_json_string(&b, aw_cstr(message));
  aw_puts(&b, "}");
  aw_ask(awaken_log, &b, &answer);
}

/* aw_progress says how far the call is: done of total, in any unit. */
AW_API void aw_progress(uint64_t done, uint64_t total, const char *message) {
  aw_buf b = {0};
  aw_str answer;
  aw_puts(&b, "{\"progress\":");
  aw_put_u64(&b, done);
  aw_puts(&b, ",\"total\":");
  aw_put_u64(&b, total);
  aw_puts(&b, ",\"message\":");
  aw_put_json_string(&b, aw_cstr(message));
  aw_puts(&b, "}");
  aw_ask(awaken_progress, &b, &answer);
}

#endif
