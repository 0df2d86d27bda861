// The exports of this module each do one thing that the host promises something
// about. Built by the tests with clang --target=wasm32.
#include "awaken_pdk.h"

#define WASI(name) AW_IMPORT("wasi_snapshot_preview1", #name)
WASI(clock_time_get) int32_t clock_time_get(int32_t id, int64_t precision, int32_t out);
WASI(random_get) int32_t random_get(int32_t buf, int32_t len);
WASI(args_sizes_get) int32_t args_sizes_get(int32_t argc, int32_t len);
WASI(environ_sizes_get) int32_t environ_sizes_get(int32_t count, int32_t len);
WASI(path_open) int32_t path_open(int32_t fd, int32_t flags, int32_t path, int32_t len, int32_t oflags,
                                  int64_t rights, int64_t inheriting, int32_t fdflags, int32_t out);
WASI(fd_prestat_get) int32_t fd_prestat_get(int32_t fd, int32_t out);
WASI(fd_write) int32_t fd_write(int32_t fd, int32_t iovs, int32_t n, int32_t out);
WASI(proc_exit) void proc_exit(int32_t status);
WASI(poll_oneoff) int32_t poll_oneoff(int32_t in, int32_t out, int32_t n, int32_t events);
AW_ENV(http_request) uint64_t extism_http_request(uint64_t request, uint64_t body);
AW_ENV(http_status_code) int32_t extism_http_status_code(void);
AW_ENV(http_headers) uint64_t extism_http_headers(void);
AW_ENV(error_get) uint64_t extism_error_get(void);

#define OUT(literal) aw_output(AW_STR(literal))

AW_EXPORT(echo)
int echo(void) {
  aw_reset();
  aw_str in;
  if (!aw_input(&in)) return aw_fail("out of memory");
  return aw_output(in);
}

AW_EXPORT(nothing)
void nothing(void) {}

AW_EXPORT(trap)
int trap(void) { __builtin_trap(); }

AW_EXPORT(spin)
int spin(void) {
  for (volatile int i = 0;; i++) {
  }
}

// spins in the host's memory functions instead of its own code
AW_EXPORT(spin_host)
int spin_host(void) {
  for (;;) extism_input_length();
}

static volatile int depth;
AW_EXPORT(recurse)
int recurse(void) {
  volatile char frame[64];
  frame[0] = (char)++depth;
  return recurse() + frame[0];
}

static int grow_until_refused(void) {
  int n = 0;
  while (__builtin_wasm_memory_grow(0, 16) != (size_t)-1) n += 16;
  return n;
}

AW_EXPORT(grow_trap)
int grow_trap(void) {
  grow_until_refused();
  __builtin_trap();
}

AW_EXPORT(grow_at_once)
int grow_at_once(void) {
  if (__builtin_wasm_memory_grow(0, 60000) == (size_t)-1) __builtin_trap();
  return OUT("\"granted\"");
}

AW_EXPORT(grow_gracefully)
int grow_gracefully(void) {
  aw_buf b = {0};
  aw_put_u64(&b, (uint64_t)grow_until_refused());
  return aw_finish(&b);
}

AW_EXPORT(grow_and_say)
int grow_and_say(void) {
  grow_until_refused();
  return aw_fail("no memory left");
}

// fills Extism's memory, whose refusals a guest easily overlooks
AW_EXPORT(fill_extism)
int fill_extism(void) {
  while (extism_alloc(1 << 20) != 0) {
  }
  extism_output_set(extism_alloc(1 << 20), 0);
  return 0;
}

AW_EXPORT(big_output)
int big_output(void) {
  aw_str in;
  aw_input(&in);
  uint64_t n = 0;
  for (size_t i = 0; i < in.n; i++) n = n * 10 + (uint64_t)(in.p[i] - '0');
  uint64_t at = extism_alloc(n); // zeros
  extism_output_set(at, n);
  return 0;
}

AW_EXPORT(error_but_zero)
int error_but_zero(void) {
  aw_fail("set as an error");
  return 0;
}

AW_EXPORT(error_with_output)
int error_with_output(void) {
  OUT("{\"partial\":true}");
  return aw_fail("half done");
}

AW_EXPORT(status_with_output)
int status_with_output(void) {
  OUT("{\"partial\":true}");
  return 7;
}

AW_EXPORT(status_only)
int status_only(void) { return 7; }

AW_EXPORT(bad_error_text)
int bad_error_text(void) { return aw_fail("bad \xff\xfe text"); }

static int statics;
AW_EXPORT(count_static)
int count_static(void) {
  aw_buf b = {0};
  aw_put_u64(&b, (uint64_t)++statics);
  return aw_finish(&b);
}

AW_EXPORT(count_then_fail)
int count_then_fail(void) {
  statics++;
  return aw_fail("an ordinary failure");
}

AW_EXPORT(count_var)
int count_var(void) {
  aw_str v = {0};
  uint64_t at = extism_var_get(aw_store(AW_STR("n")));
  if (at != 0) aw_load(at, &v);
  aw_buf b = {0};
  aw_put(&b, v);
  aw_puts(&b, "1");
  extism_var_set(aw_store(AW_STR("n")), aw_store(aw_view(&b)));
  return aw_finish(&b);
}

// looks for the input "secret-42" of an earlier call in Extism's memory
AW_EXPORT(scavenge)
int scavenge(void) {
  const uint64_t mask = 0x0101010101010101u;
  volatile uint64_t hidden = 0x342d746572636573u ^ mask;
  for (uint64_t at = 0; at < 2 * 65536ull; at++)
    if ((extism_load_u64(at) ^ mask) == hidden) return OUT("\"found\"");
  return OUT("\"clean\"");
}

// leaves a pattern all over both memories
AW_EXPORT(litter)
int litter(void) {
  size_t from = __builtin_wasm_memory_grow(0, 8) * 65536;
  for (size_t i = 0; i < 8 * 65536; i += 8) *(volatile uint64_t *)(from + i) = 0xdeadbeefdeadbeefu;
  for (uint64_t at = 32768; at < 16 * 65536ull; at += 8) extism_store_u64(at, 0xdeadbeefdeadbeefu);
  return OUT("\"done\"");
}

// finds anything that is not zero in memory nobody wrote to in this instance
AW_EXPORT(find_litter)
int find_litter(void) {
  size_t from = __builtin_wasm_memory_grow(0, 8) * 65536;
  for (size_t i = 0; i < 8 * 65536; i += 8)
    if (*(volatile uint64_t *)(from + i) != 0) return OUT("\"found in its own memory\"");
  for (uint64_t at = 32768; at < 16 * 65536ull; at += 8)
    if (extism_load_u64(at) != 0) return OUT("\"found in Extism's memory\"");
  return OUT("\"clean\"");
}

AW_EXPORT(fill_vars)
int fill_vars(void) {
  uint8_t key[2] = {'a', 0};
  for (int i = 0; i < 64; i++) {
    key[1] = (uint8_t)(' ' + i);
    uint64_t v = extism_alloc(64 << 10);
    extism_var_set(aw_store((aw_str){key, 2}), v);
  }
  return OUT("\"kept\"");
}

AW_EXPORT(config)
int config(void) {
  aw_str v;
  if (!aw_config("units", &v)) return aw_fail("not set");
  return aw_output(v);
}

AW_EXPORT(fetch)
int fetch(void) {
  aw_str in;
  aw_input(&in);
  uint64_t body = extism_http_request(aw_store(in), 0);
  aw_str got = {0};
  aw_load(body, &got);
  return aw_output(got);
}

// fetch_left tells whether anything of an answer is there before a request is sent.
AW_EXPORT(fetch_left)
int fetch_left(void) {
  if (extism_http_status_code() == 0 && extism_http_headers() == 0) return OUT("\"clean\"");
  return OUT("\"dirty\"");
}

AW_EXPORT(call_info)
int call_info(void) {
  aw_str s;
  if (!aw_call_info(&s)) return aw_fail("no call");
  return aw_output(s);
}

AW_EXPORT(state)
int state(void) {
  aw_str s;
  if (!aw_state_get("counter", &s)) return aw_fail("no answer");
  return aw_output(s);
}

// hands its input to awaken_state_get as it is, bad or not
AW_EXPORT(raw_state)
int raw_state(void) {
  aw_str in, s = {0};
  aw_input(&in);
  if (!aw_load(awaken_state_get(aw_store(in)), &s)) return aw_fail("no memory");
  return aw_output(s);
}

AW_EXPORT(wild_request)
int wild_request(void) {
  aw_str s = {0};
  aw_load(awaken_state_get(0xffffffffff00ull), &s);
  return aw_output(s);
}

static void say(int fd, const char *text, size_t n) {
  struct {
    uint32_t p, n;
  } v = {(uint32_t)(uintptr_t)text, (uint32_t)n};
  uint32_t wrote;
  fd_write(fd, (int32_t)(uintptr_t)&v, 1, (int32_t)(uintptr_t)&wrote);
}

AW_EXPORT(talk)
int talk(void) {
  extism_log_info(aw_store(AW_STR("GUEST-SAYS by extism")));
  aw_log("warn", "GUEST-SAYS by awaken");
  aw_progress(1, 4, "GUEST-SAYS progress");
  say(1, "GUEST-SAYS on stdout\n", 21);
  say(2, "GUEST-SAYS on stderr", 20);
  return OUT("true");
}

AW_EXPORT(log_flood)
int log_flood(void) {
  static char line[1 << 17];
  for (size_t i = 0; i < sizeof line; i++) line[i] = 'x';
  say(1, line, sizeof line);
  say(1, "\n", 1);
  for (int i = 0; i < 5000; i++) aw_log("info", "again");
  return OUT("true");
}

AW_EXPORT(world)
int world(void) {
  static uint64_t now, noise, mono;
  clock_time_get(0, 1, (int32_t)(uintptr_t)&now);
  clock_time_get(1, 1, (int32_t)(uintptr_t)&mono);
  random_get((int32_t)(uintptr_t)&noise, 8);
  aw_buf b = {0};
  aw_puts(&b, "{\"now\":");
  aw_put_u64(&b, now / 1000000);
  aw_puts(&b, ",\"mono\":");
  aw_put_u64(&b, mono);
  aw_puts(&b, ",\"noise\":\"");
  aw_put_u64(&b, noise);
  aw_puts(&b, "\"}");
  return aw_finish(&b);
}

AW_EXPORT(surroundings)
int surroundings(void) {
  static uint32_t argc, argn, envc, envn, fd;
  static char prestat[16];
  args_sizes_get((int32_t)(uintptr_t)&argc, (int32_t)(uintptr_t)&argn);
  environ_sizes_get((int32_t)(uintptr_t)&envc, (int32_t)(uintptr_t)&envn);
  int opened = 0;
  for (int dir = 0; dir < 16; dir++) {
    // wazero lists its standard streams too
    if (dir > 2 && fd_prestat_get(dir, (int32_t)(uintptr_t)prestat) == 0) opened++;
    if (path_open(dir, 1, (int32_t)(uintptr_t) "etc/passwd", 10, 0, 2, 2, 0, (int32_t)(uintptr_t)&fd) == 0) opened++;
    if (path_open(dir, 1, (int32_t)(uintptr_t) "/etc/passwd", 11, 0, 2, 2, 0, (int32_t)(uintptr_t)&fd) == 0) opened++;
  }
  aw_buf b = {0};
  aw_puts(&b, "{\"args\":");
  aw_put_u64(&b, argc);
  aw_puts(&b, ",\"env\":");
  aw_put_u64(&b, envc);
  aw_puts(&b, ",\"files\":");
  aw_put_u64(&b, (uint64_t)opened);
  aw_puts(&b, "}");
  return aw_finish(&b);
}

AW_EXPORT(exit_zero)
int exit_zero(void) {
  OUT("\"bye\"");
  proc_exit(0);
  return 1;
}

AW_EXPORT(exit_three)
int exit_three(void) {
  say(2, "gave up\n", 8);
  proc_exit(3);
  return 1;
}

// pretends that the host's deadline ended it
AW_EXPORT(exit_like_timeout)
int exit_like_timeout(void) {
  proc_exit((int32_t)0xefffffff);
  return 1;
}

AW_EXPORT(sleep_long)
int sleep_long(void) {
  static struct {
    uint64_t userdata;
    uint8_t tag;
    uint8_t pad[7];
    uint32_t clock;
    uint32_t pad2;
    uint64_t timeout, precision;
    uint16_t flags;
    uint8_t pad3[6];
  } sub = {.clock = 1, .timeout = 3600ull * 1000000000};
  static char event[64];
  static uint32_t n;
  poll_oneoff((int32_t)(uintptr_t)&sub, (int32_t)(uintptr_t)event, 1, (int32_t)(uintptr_t)&n);
  return OUT("\"awake\"");
}

// makes the list of blocks in Extism's memory run in a circle: whatever walks it
// then never comes to an end
static void damage(void) {
  static const uint8_t minus_twelve[4] = {0xf4, 0xff, 0xff, 0xff};
  for (unsigned i = 0; i < 4; i++) extism_store_u8(65 + 4 + i, minus_twelve[i]);
}

AW_EXPORT(damage_extism)
int damage_extism(void) {
  OUT("\"damaged\"");
  damage();
  extism_store_u64(9, 0x7fffffff);
  return 0;
}

AW_EXPORT(damage_and_hang)
int damage_and_hang(void) {
  uint64_t key = aw_store(AW_STR("units"));
  extism_store_u64(9, 0xffff); // nothing left at the end: look for a free block
  damage();
  extism_config_get(key);
  return OUT("\"survived\"");
}

AW_EXPORT(long_error)
int long_error(void) {
  uint64_t at = extism_alloc(256 << 10);
  for (uint64_t i = 0; i < 256 << 10; i += 8) extism_store_u64(at + i, 0x4141414141414141u);
  extism_error_set(at);
  return 1;
}

AW_EXPORT(extism_log_flood)
int extism_log_flood(void) {
  uint64_t at = extism_alloc(1 << 20);
  for (int i = 0; i < 200; i++) extism_log_info(at);
  return OUT("true");
}

// waits for its standard input, and for a time that never comes
AW_EXPORT(poll_forever)
int poll_forever(void) {
  static struct {
    uint64_t userdata;
    uint8_t tag;
    uint8_t pad[7];
    uint32_t what;
    uint32_t pad2;
    uint64_t timeout, precision;
    uint16_t flags;
    uint8_t pad3[6];
  } subs[2] = {{.tag = 1, .what = 0}, {.tag = 0, .what = 1, .timeout = 3600ull * 1000000000}};
  static char events[128];
  static uint32_t n;
  for (;;) poll_oneoff((int32_t)(uintptr_t)subs, (int32_t)(uintptr_t)events, 2, (int32_t)(uintptr_t)&n);
}

AW_EXPORT(random_flood)
int random_flood(void) {
  size_t from = __builtin_wasm_memory_grow(0, 256) * 65536;
  for (;;) random_get((int32_t)from, 256 * 65536);
}
