/* bad: tools that misbehave, each in one way. The host must turn every one into
 * the stated result and leave the other calls of the batch unharmed.
 */
#include "awaken_json.h"

AW_EXPORT(trap)
int trap(void) { __builtin_trap(); }

static volatile uint32_t turns;

AW_EXPORT(loop)
int loop(void) {
  for (;;) turns++;
}

/* Takes memory until it is refused, and then fails as most languages do. */
AW_EXPORT(grow)
int grow(void) {
  while (__builtin_wasm_memory_grow(0, 128) != (size_t)-1) turns++;
  __builtin_trap();
}

/* The same, but in Extism's memory. */
AW_EXPORT(grow_extism)
int grow_extism(void) {
  while (extism_alloc(8 << 20) != 0) turns++;
  __builtin_trap();
}

/* No compiler can make a loop of this, and it needs no memory of its own. */
static __attribute__((noinline)) uint32_t dive(uint32_t n) {
  if (n == UINT32_MAX) return turns;
  return (dive(n + 1) * 31 + n) ^ turns;
}

AW_EXPORT(stack)
int stack(void) { return dive(0) == 0; }

AW_EXPORT(garbage_json)
int garbage_json(void) { return aw_output(AW_STR("{\"a\":1,}")); }

AW_EXPORT(two_values)
int two_values(void) { return aw_output(AW_STR("{} {}")); }

AW_EXPORT(garbage_utf8)
int garbage_utf8(void) { return aw_output(AW_STR("ab\xff\xc3\x28 cd")); }

AW_EXPORT(lone_surrogate)
int lone_surrogate(void) { return aw_output(AW_STR("{\"s\":\"\\ud800\"}")); }

AW_EXPORT(nan)
int nan(void) { return aw_output(AW_STR("{\"x\":NaN}")); }

/* 17 MiB, never written, so of zero bytes: valid as text, too long by 1 MiB. */
AW_EXPORT(big_output)
int big_output(void) {
  uint64_t bytes = 17u << 20, offset = extism_alloc(bytes);
  if (offset == 0) return aw_fail("out of memory");
  extism_output_set(offset, bytes);
  return 0;
}

/* An output that lies outside of Extism's memory. */
AW_EXPORT(wild_output)
int wild_output(void) {
  extism_output_set(1ull << 40, 100);
  return 0;
}

AW_EXPORT(empty_output)
int empty_output(void) { return 0; }

AW_EXPORT(bad_blocks)
int bad_blocks(void) {
  return aw_output(AW_STR("{\"content\":[{\"type\":\"video\",\"text\":\"x\"}],\"is_error\":false}"));
}

AW_EXPORT(unknown_field)
int unknown_field(void) {
  return aw_output(AW_STR("{\"content\":[],\"is_error\":false,\"tier\":\"docker\"}"));
}

#define STATE(commands) \
  "{\"content\":[{\"type\":\"text\",\"text\":\"stored\"}],\"is_error\":false,\"state\":[" commands "]}"

/* A good command and one on a key that the manifest does not declare: neither counts. */
AW_EXPORT(undeclared_state)
int undeclared_state(void) {
  return aw_output(AW_STR(STATE("{\"op\":\"set\",\"key\":\"count\",\"value\":1},"
                                "{\"op\":\"set\",\"key\":\"admin\",\"value\":true}")));
}

/* A good command and one whose value breaks the schema: neither counts. */
AW_EXPORT(invalid_state)
int invalid_state(void) {
  return aw_output(AW_STR(STATE("{\"op\":\"increment\",\"key\":\"count\",\"value\":1},"
                                "{\"op\":\"set\",\"key\":\"count\",\"value\":\"many\"}")));
}

/* Success by status, an error by text: fails. */
AW_EXPORT(error_and_zero)
int error_and_zero(void) {
  aw_output(AW_STR("\"fine\""));
  aw_fail("error text with status 0");
  return 0;
}

/* An output, and a status that says failure: fails. */
AW_EXPORT(output_and_status)
int output_and_status(void) {
  aw_output(AW_STR("\"fine\""));
  return 7;
}

/* An error text that would take over a terminal. */
AW_EXPORT(escape_error)
int escape_error(void) { return aw_fail("\x1b]0;owned\x07\x1b[2J\rawaken-host: all good\n\xff"); }

AW_EXPORT(log_flood)
int log_flood(void) {
  static char line[200];
  for (size_t i = 0; i + 1 < sizeof line; i++) line[i] = (char)('a' + i % 26);
  for (int i = 0; i < 1000; i++) aw_log("error", line), aw_reset();
  return aw_output(AW_STR("\"logged\""));
}

AW_EXPORT(good)
int good(void) { return aw_output(AW_STR("\"good\"")); }
