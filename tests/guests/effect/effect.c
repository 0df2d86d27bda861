/* effect: tools with an effect outside of the host, to be counted over crashes.
 *
 * The effect is one line of the log: it tells which call this is, as the host told
 * it to the tool. Whoever writes the log to a file outside of the ledger has a count
 * that a crash of the host does not take back. After the effect a tool takes its
 * time, so that the host can be killed between the effect and its record.
 *
 * All tools do the same; they differ in what the manifest promises of them.
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

static bool sleep_ms(int64_t ms) {
  uint64_t now, end;
  if (wasi_clock_time_get(MONOTONIC, 1, &now) != 0) return false;
  for (end = now + (uint64_t)ms * 1000000u; now < end;) {
    uint64_t left = end - now;
    wasi_subscription nap = {.clock = MONOTONIC, .timeout = left < NAP ? left : NAP};
    wasi_event event;
    uint32_t events;
    if (wasi_poll_oneoff(&nap, &event, 1, &events) != 0) return false;
    if (wasi_clock_time_get(MONOTONIC, 1, &now) != 0) return false;
  }
  return true;
}

/* integer reads a whole number of the arguments; 0 where there is none. */
static bool integer(aw_val args, const char *key, int64_t *out) {
  aw_val v = aw_json_get(args, key);
  *out = 0;
  return v.kind == AW_NONE || aw_json_int(v, out);
}

static int effect(void) {
  aw_str input, info;
  int64_t ms, n;
  if (!aw_input(&input) || !aw_call_info(&info)) return aw_fail("out of memory");
  aw_val args = aw_json_parse(input);
  if (!integer(args, "ms", &ms) || ms < 0 || ms > 60000) return aw_fail("ms must be a whole number from 0 to 60000");
  if (!integer(args, "n", &n)) return aw_fail("n must be a whole number");

  /* The line is "effect " and the identity of the call. */
  aw_buf line = {0};
  aw_puts(&line, "effect ");
  aw_put(&line, info);
  aw_put_byte(&line, 0);
  if (line.failed) return aw_fail("out of memory");
  aw_log("info", (const char *)line.p);
  if (!sleep_ms(ms)) return aw_fail("there is no clock");

  aw_buf out = {0};
  aw_puts(&out, "{\"content\":[{\"type\":\"json\",\"json\":");
  aw_put(&out, info);
  aw_puts(&out, "}],\"is_error\":false");
  if (n != 0) {
    aw_puts(&out, ",\"state\":[{\"op\":\"increment\",\"key\":\"total\",\"value\":");
    aw_put_i64(&out, n);
    aw_puts(&out, "},{\"op\":\"append\",\"key\":\"entries\",\"value\":");
    aw_put_i64(&out, n);
    aw_puts(&out, "},{\"op\":\"set\",\"key\":\"last\",\"value\":");
    aw_put_i64(&out, n);
    aw_puts(&out, "}]");
  }
  aw_puts(&out, "}");
  return aw_finish(&out);
}

AW_EXPORT(once)
int once(void) { return effect(); }

AW_EXPORT(safe)
int safe(void) { return effect(); }

AW_EXPORT(idempotent)
int idempotent(void) { return effect(); }

AW_EXPORT(durable)
int durable(void) { return effect(); }
