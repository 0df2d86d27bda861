/* search: finds lines in the files of a run with the system's own grep.
 *
 * awaken_exec runs the command inside the sandbox, without a shell: what the model
 * writes is one argument, whatever is in it. What grep prints is read here and sorted,
 * so that the answer does not depend on the order in which a file system lists.
 */
#include "awaken_json.h"

#define DEFAULT_LIMIT 100

typedef struct {
  aw_str file, text;
  uint64_t line;
} match;

static void argument(aw_buf *b, aw_str s) {
  aw_puts(b, ",");
  aw_put_json_string(b, s);
}

/* base64 decodes what a command printed that is not UTF-8. */
static bool base64(aw_str in, aw_str *out) {
  uint8_t *to = aw_alloc(in.n);
  if (to == NULL) return false;
  size_t n = 0;
  uint32_t bits = 0, have = 0;
  for (size_t i = 0; i < in.n && in.p[i] != '='; i++) {
    uint8_t c = in.p[i];
    uint32_t v = c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26u : c >= '0' && c <= '9' ? c - '0' + 52u : c == '+' ? 62 : c == '/' ? 63 : 64;
    if (v == 64) return false;
    bits = bits << 6 | v;
    if ((have += 6) < 8) continue;
    have -= 8;
    to[n++] = (uint8_t)(bits >> have);
  }
  *out = (aw_str){to, n};
  return true;
}

/* printed is what the command wrote to one of its streams. */
static bool printed(aw_val answer, const char *plain, const char *encoded, aw_str *out) {
  aw_str text;
  *out = (aw_str){NULL, 0};
  if (aw_json_text(aw_json_get(answer, encoded), &text) && text.n > 0) return base64(text, out);
  aw_val v = aw_json_get(answer, plain);
  return v.kind == AW_NONE || aw_json_text(v, out);
}

/* put_text writes a JSON string, with a mark in place of each byte that is not UTF-8. */
static void put_text(aw_buf *out, aw_str s) {
  aw_buf clean = {0};
  for (aw_cursor c = {s.p, s.p + s.n}; c.p < c.end;) {
    const uint8_t *from = c.p;
    if (*from < 0x80) {
      c.p++;
      aw_put_byte(&clean, *from);
    } else if (aw_utf8_step(&c)) {
      aw_put(&clean, (aw_str){from, (size_t)(c.p - from)});
    } else {
      c.p = from + 1;
      aw_puts(&clean, "\xEF\xBF\xBD");
    }
  }
  if (clean.failed) out->failed = true;
  else aw_put_json_string(out, aw_view(&clean));
}

/* read_line takes "./file:12:text" apart. */
static bool read_line(aw_str s, match *m) {
  if (s.n > 2 && s.p[0] == '.' && s.p[1] == '/') s = (aw_str){s.p + 2, s.n - 2};
  for (size_t i = 1; i < s.n; i++) {
    if (s.p[i] != ':') continue;
    uint64_t line = 0;
    size_t at = i + 1;
    while (at < s.n && at - i < 16 && s.p[at] >= '0' && s.p[at] <= '9') line = line * 10 + (s.p[at++] - '0');
    if (at == i + 1 || at >= s.n || s.p[at] != ':') continue;
    *m = (match){{s.p, i}, {s.p + at + 1, s.n - at - 1}, line};
    return true;
  }
  return false;
}

static int compare(aw_str a, aw_str b) {
  size_t n = a.n < b.n ? a.n : b.n;
  int c = n == 0 ? 0 : memcmp(a.p, b.p, n);
  return c != 0 ? c : a.n < b.n ? -1 : a.n > b.n;
}

static int by_place(const void *a, const void *b) {
  const match *x = a, *y = b;
  int c = compare(x->file, y->file);
  return c != 0 ? c : x->line < y->line ? -1 : x->line > y->line;
}

static int report(aw_str text, int64_t limit) {
  size_t lines = 0, n = 0;
  for (size_t i = 0; i < text.n; i++) lines += text.p[i] == '\n';
  match *all = aw_alloc((lines + 1) * sizeof(match));
  if (all == NULL) return aw_fail("out of memory");
  for (size_t from = 0; from < text.n;) {
    size_t to = from;
    while (to < text.n && text.p[to] != '\n') to++;
    if (read_line((aw_str){text.p + from, to - from}, &all[n])) n++;
    from = to + 1;
  }
  qsort(all, n, sizeof(match), by_place);
  aw_buf out = {0};
  aw_puts(&out, "{\"matches\":[");
  for (size_t i = 0; i < n && i < (size_t)limit; i++) {
    aw_puts(&out, i == 0 ? "{\"file\":" : ",{\"file\":");
    put_text(&out, all[i].file);
    aw_puts(&out, ",\"line\":");
    aw_put_u64(&out, all[i].line);
    aw_puts(&out, ",\"text\":");
    put_text(&out, all[i].text);
    aw_puts(&out, "}");
  }
  aw_puts(&out, n > (size_t)limit ? "],\"more\":true}" : "],\"more\":false}");
  return aw_finish(&out);
}

AW_EXPORT(grep)
int grep(void) {
  aw_str input, pattern, path = AW_STR("."), text;
  if (!aw_input(&input)) return aw_fail("out of memory");
  aw_val args = aw_json_parse(input), within = aw_json_get(args, "path"), at_most = aw_json_get(args, "limit");
  int64_t limit = DEFAULT_LIMIT, status;
  if (!aw_json_text(aw_json_get(args, "pattern"), &pattern)) return aw_fail("pattern must be a text");
  if (within.kind != AW_NONE && !aw_json_text(within, &path)) return aw_fail("path must be a text");
  if (at_most.kind != AW_NONE && (!aw_json_int(at_most, &limit) || limit < 1)) return aw_fail("limit must be a number from 1 on");

  aw_buf request = {0};
  aw_puts(&request, "{\"argv\":[\"grep\",\"-r\",\"-n\",\"-H\",\"-I\"");
  argument(&request, aw_json_true(aw_json_get(args, "fixed")) ? AW_STR("-F") : AW_STR("-E"));
  if (aw_json_true(aw_json_get(args, "ignore_case"))) argument(&request, AW_STR("-i"));
  argument(&request, AW_STR("-e"));
  argument(&request, pattern);
  argument(&request, AW_STR("--"));
  argument(&request, path);
  aw_puts(&request, "]}");
  aw_str told;
  if (!aw_ask(awaken_exec, &request, &told)) return aw_fail("out of memory");
  aw_val answer = aw_json_parse(told);
  if (aw_json_text(aw_json_get(answer, "error"), &text) && text.n > 0) {
    aw_buf why = {0};
    aw_puts(&why, "grep did not run: ");
    aw_put(&why, text);
    return aw_fail_buf(&why);
  }
  if (!aw_json_int(aw_json_get(answer, "exit_code"), &status)) return aw_fail("the answer of awaken_exec has no exit_code");
  if (status != 0 && status != 1) {
    aw_buf why = {0};
    aw_puts(&why, "grep failed: ");
    if (printed(answer, "stderr", "stderr_base64", &text)) aw_put(&why, text);
    return aw_fail_buf(&why);
  }
  if (aw_json_true(aw_json_get(answer, "stdout_truncated"))) return aw_fail("more lines match than can be read: narrow the pattern or the path");
  if (!printed(answer, "stdout", "stdout_base64", &text)) return aw_fail("out of memory");
  return report(text, limit);
}
