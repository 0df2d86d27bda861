/* tally: counts things over the life of a run.
 *
 * The module keeps nothing: it asks for changes of run state (increment, append,
 * set, delete) in its answer, and the host commits and publishes them with the
 * batch. What it reads is what was published before this batch.
 */
#include "awaken_json.h"

#define MAX_NAME 400 /* bytes: 100 characters of UTF-8 */

static void begin_text(aw_buf *out) { aw_puts(out, "{\"content\":[{\"type\":\"text\",\"text\":"); }

/* published reads the value of a state key; kind AW_NONE when there is none. */
static bool published(const char *key, aw_val *out) {
  aw_str answer;
  if (!aw_state_get(key, &answer)) return false;
  aw_val object = aw_json_parse(answer);
  if (object.kind != AW_OBJECT) return false;
  *out = (aw_val){AW_NONE, {NULL, 0}};
  if (aw_json_true(aw_json_get(object, "found"))) *out = aw_json_get(object, "value");
  return true;
}

static bool published_total(int64_t *total) {
  aw_val v;
  if (!published("total", &v)) return false;
  *total = 0;
  return v.kind == AW_NONE || aw_json_int(v, total);
}

AW_EXPORT(add)
int add(void) {
  aw_str input, name;
  if (!aw_input(&input)) return aw_fail("out of memory");
  aw_val args = aw_json_parse(input), amount_value = aw_json_get(args, "amount");
  if (!aw_json_text(aw_json_get(args, "name"), &name) || name.n == 0) return aw_fail("name must be a text");
  if (name.n > MAX_NAME) return aw_fail("name is longer than 400 bytes");
  int64_t amount = 1, before;
  if (amount_value.kind != AW_NONE && !aw_json_int(amount_value, &amount)) return aw_fail("amount must be a whole number, written in digits only");
  if (!published_total(&before)) return aw_fail("the published total cannot be read");

  aw_buf text = {0}, out = {0};
  aw_puts(&text, "Counted ");
  aw_put_i64(&text, amount);
  aw_puts(&text, " of ");
  aw_put(&text, name);
  aw_puts(&text, "; the total before this batch is ");
  aw_put_i64(&text, before);
  aw_puts(&text, ".");
  if (text.failed) return aw_fail("out of memory");

  begin_text(&out);
  aw_put_json_string(&out, aw_view(&text));
  aw_puts(&out, "}],\"is_error\":false,\"state\":[{\"op\":\"increment\",\"key\":\"total\",\"value\":");
  aw_put_i64(&out, amount);
  aw_puts(&out, "},{\"op\":\"append\",\"key\":\"entries\",\"value\":{\"name\":");
  aw_put_json_string(&out, name);
  aw_puts(&out, ",\"amount\":");
  aw_put_i64(&out, amount);
  aw_puts(&out, "}}]}");
  return aw_finish(&out);
}

AW_EXPORT(report)
int report(void) {
  int64_t total;
  aw_val entries;
  if (!published_total(&total)) return aw_fail("the published total cannot be read");
  if (!published("entries", &entries)) return aw_fail("the published entries cannot be read");

  aw_buf text = {0}, out = {0};
  aw_str key;
  aw_val entry;
  uint64_t count = 0;
  for (size_t at = 0; aw_json_next(entries, &at, &key, &entry);) count++;
  aw_puts(&text, "Total ");
  aw_put_i64(&text, total);
  aw_puts(&text, " in ");
  aw_put_u64(&text, count);
  aw_puts(&text, count == 1 ? " entry." : " entries.");
  if (text.failed) return aw_fail("out of memory");

  begin_text(&out);
  aw_put_json_string(&out, aw_view(&text));
  aw_puts(&out, "},{\"type\":\"json\",\"json\":{\"total\":");
  aw_put_i64(&out, total);
  aw_puts(&out, ",\"entries\":");
  if (entries.kind == AW_ARRAY) aw_put(&out, entries.raw);
  else aw_puts(&out, "[]");
  aw_puts(&out, "}}],\"is_error\":false}");
  return aw_finish(&out);
}

AW_EXPORT(reset)
int reset(void) {
  aw_buf out = {0};
  begin_text(&out);
  aw_puts(&out,
          "\"The tally starts again at 0.\"}],\"is_error\":false,\"state\":["
          "{\"op\":\"set\",\"key\":\"total\",\"value\":0},{\"op\":\"delete\",\"key\":\"entries\"}]}");
  return aw_finish(&out);
}
