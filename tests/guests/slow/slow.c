/* slow: tools that take their time, for killing the host in the middle of a call.
 *
 * Both sleepers return at once when the call is not on its first attempt, and say
 * which attempt it was: a test sees whether the host called them again.
 */
#include "awaken_json.h"

AW_IMPORT("wasi_snapshot_preview1", "clock_time_get")
uint32_t wasi_clock_time_get(uint32_t clock, uint64_t precision, uint64_t *nanoseconds);

/* subscription and event of WASI preview 1, the clock variant only. */
typedef struct {
  uint64_t userdata;
  uint8_t tag; /* 0: clock */
  _Alignas(8) uint32_t clock; /* the variants start here */
  uint64_t timeout, precision;
  uint16_t flags; /* 0: relative */
} wasi_subscription;

typedef struct {
  uint64_t userdata;
  uint16_t error;
  uint8_t type;
  uint64_t nbytes;
  uint16_t flags;
} wasi_event;

_Static_assert(sizeof(wasi_subscription) == 48 && offsetof(wasi_subscription, clock) == 16 &&
                   offsetof(wasi_subscription, timeout) == 24 && offsetof(wasi_subscription, flags) == 40,
               "layout of subscription");
_Static_assert(sizeof(wasi_event) == 32, "layout of event");

AW_IMPORT("wasi_snapshot_preview1", "poll_oneoff")
uint32_t wasi_poll_oneoff(const wasi_subscription *in, wasi_event *out, uint32_t n, uint32_t *events);

#define MONOTONIC 1

/* Short naps, so that a host that cannot interrupt one still stops the call. */
#define NAP (5u * 1000u * 1000u)

static bool sleep_until(uint64_t nanoseconds) {
  for (;;) {
    uint64_t now;
    if (wasi_clock_time_get(MONOTONIC, 1, &now) != 0) return false;
    if (now >= nanoseconds) return true;
    uint64_t left = nanoseconds - now;
    wasi_subscription nap = {.clock = MONOTONIC, .timeout = left < NAP ? left : NAP};
    wasi_event event;
    uint32_t events;
    if (wasi_poll_oneoff(&nap, &event, 1, &events) != 0) return false;
  }
}

static int sleeper(void) {
  aw_str input, info;
  int64_t ms, attempt;
  uint64_t start;
  if (!aw_input(&input) || !aw_call_info(&info)) return aw_fail("out of memory");
  if (!aw_json_int(aw_json_get(aw_json_parse(input), "ms"), &ms) || ms < 0 || ms > 3600000)
    return aw_fail("ms must be a whole number from 0 to 3600000");
  if (!aw_json_int(aw_json_get(aw_json_parse(info), "attempt"), &attempt)) return aw_fail("the host does not say which attempt this is");

  aw_buf out = {0};
  if (attempt > 1) {
    aw_puts(&out, "returned at once in attempt ");
  } else {
    if (wasi_clock_time_get(MONOTONIC, 1, &start) != 0) return aw_fail("there is no clock");
    if (!sleep_until(start + (uint64_t)ms * 1000000u)) return aw_fail("there is no clock to sleep by");
    aw_puts(&out, "slept ");
    aw_put_i64(&out, ms);
    aw_puts(&out, " ms in attempt ");
  }
  aw_put_i64(&out, attempt);
  return aw_finish(&out);
}

AW_EXPORT(sleep_unsafe)
int sleep_unsafe(void) { return sleeper(); }

AW_EXPORT(sleep_safe)
int sleep_safe(void) { return sleeper(); }

AW_EXPORT(echo)
int echo(void) {
  aw_str input;
  if (!aw_input(&input)) return aw_fail("out of memory");
  return aw_output(input);
}
