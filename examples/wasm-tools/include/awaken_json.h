/* awaken_json.h: reading JSON in a freestanding C plugin.
 *
 * aw_json_parse checks the whole text once: RFC 8259, UTF-8 without surrogates,
 * at most AW_JSON_DEPTH levels, nothing after the value. The other functions only
 * walk text that passed, so they need no further bounds of their own.
 */
#ifndef AWAKEN_JSON_H
#define AWAKEN_JSON_H

#include "awaken_pdk.h"

#define AW_JSON_DEPTH 64

typedef enum {
  AW_NONE, /* not there, or not JSON */
  AW_NULL,
  AW_BOOL,
  AW_NUMBER,
  AW_STRING,
  AW_ARRAY,
  AW_OBJECT
} aw_kind;

/* aw_val is a value with its text, as written. */
typedef struct {
  aw_kind kind;
  aw_str raw;
} aw_val;

typedef struct {
  const uint8_t *p, *end;
} aw_cursor;

AW_API void aw_json_space(aw_cursor *c) {
  while (c->p < c->end && (*c->p == ' ' || *c->p == '\t' || *c->p == '\n' || *c->p == '\r')) c->p++;
}

AW_API bool aw_json_word(aw_cursor *c, const char *word) {
  size_t n = aw_strlen(word);
  if ((size_t)(c->end - c->p) < n) return false;
  for (size_t i = 0; i < n; i++)
    if (c->p[i] != (uint8_t)word[i]) return false;
  c->p += n;
  return true;
}

AW_API bool aw_json_hex4(aw_cursor *c, uint32_t *out) {
  if (c->end - c->p < 4) return false;
  uint32_t v = 0;
  for (int i = 0; i < 4; i++) {
    uint8_t h = *c->p++;
    if (h >= '0' && h <= '9') v = v * 16 + (h - '0');
    else if (h >= 'a' && h <= 'f') v = v * 16 + (h - 'a' + 10);
    else if (h >= 'A' && h <= 'F') v = v * 16 + (h - 'A' + 10);
    else return false;
  }
  *out = v;
  return true;
}

/* One code point of UTF-8: shortest form only, no surrogates, at most 10FFFF. */
AW_API bool aw_utf8_step(aw_cursor *c) {
  uint8_t b = *c->p;
  uint32_t v;
  int more;
  if (b < 0x80) {
    c->p++;
    return true;
  } else if (b >= 0xC2 && b <= 0xDF) {
    v = b & 0x1F;
    more = 1;
  } else if (b >= 0xE0 && b <= 0xEF) {
    v = b & 0x0F;
    more = 2;
  } else if (b >= 0xF0 && b <= 0xF4) {
    v = b & 0x07;
    more = 3;
  } else {
    return false;
  }
  if (c->end - c->p <= more) return false;
  for (int i = 1; i <= more; i++) {
    if ((c->p[i] & 0xC0) != 0x80) return false;
    v = v << 6 | (c->p[i] & 0x3F);
  }
  if (more == 2 && (v < 0x800 || (v >= 0xD800 && v <= 0xDFFF))) return false;
  if (more == 3 && (v < 0x10000 || v > 0x10FFFF)) return false;
  c->p += more + 1;
  return true;
}

/* The code point of an escape whose backslash is behind the cursor. */
AW_API bool aw_json_escape(aw_cursor *c, uint32_t *out) {
  if (c->p >= c->end) return false;
  uint8_t e = *c->p++;
  switch (e) {
    case '"': case '\\': case '/': *out = e; return true;
    case 'b': *out = 8; return true;
    case 'f': *out = 12; return true;
    case 'n': *out = 10; return true;
    case 'r': *out = 13; return true;
    case 't': *out = 9; return true;
    case 'u': break;
    default: return false;
  }
  uint32_t high, low;
  if (!aw_json_hex4(c, &high)) return false;
  *out = high;
  if (high < 0xD800 || high > 0xDFFF) return true;
  if (high > 0xDBFF || !aw_json_word(c, "\\u") || !aw_json_hex4(c, &low)) return false;
  if (low < 0xDC00 || low > 0xDFFF) return false;
  *out = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  return true;
}

AW_API bool aw_json_skip_string(aw_cursor *c) {
  if (c->p >= c->end || *c->p != '"') return false;
  c->p++;
  while (c->p < c->end) {
    uint8_t b = *c->p;
    uint32_t v;
    if (b == '"') {
      c->p++;
      return true;
    } else if (b == '\\') {
      c->p++;
      if (!aw_json_escape(c, &v)) return false;
    } else if (b < 0x20 || !aw_utf8_step(c)) {
      return false;
    }
  }
  return false;
}

AW_API size_t aw_json_digits(aw_cursor *c) {
  size_t n = 0;
  while (c->p < c->end && *c->p >= '0' && *c->p <= '9') c->p++, n++;
  return n;
}

AW_API bool aw_json_skip_number(aw_cursor *c) {
  if (c->p < c->end && *c->p == '-') c->p++;
  bool zero = c->p < c->end && *c->p == '0';
  size_t n = aw_json_digits(c);
  if (n == 0 || (zero && n > 1)) return false;
  if (c->p < c->end && *c->p == '.') {
    c->p++;
    if (aw_json_digits(c) == 0) return false;
  }
  if (c->p < c->end && (*c->p == 'e' || *c->p == 'E')) {
    c->p++;
    if (c->p < c->end && (*c->p == '+' || *c->p == '-')) c->p++;
    if (aw_json_digits(c) == 0) return false;
  }
  return true;
}

/* aw_json_skip moves behind one value and returns its kind, AW_NONE if it is not
 * a value. */
static aw_kind aw_json_skip(aw_cursor *c, int depth) {
  if (c->p >= c->end || depth >= AW_JSON_DEPTH) return AW_NONE;
  uint8_t first = *c->p;
  switch (first) {
    case 'n': return aw_json_word(c, "null") ? AW_NULL : AW_NONE;
    case 't': return aw_json_word(c, "true") ? AW_BOOL : AW_NONE;
    case 'f': return aw_json_word(c, "false") ? AW_BOOL : AW_NONE;
    case '"': return aw_json_skip_string(c) ? AW_STRING : AW_NONE;
    case '[': case '{': break;
    default: return aw_json_skip_number(c) ? AW_NUMBER : AW_NONE;
  }
  uint8_t close = first == '[' ? ']' : '}';
  aw_kind kind = first == '[' ? AW_ARRAY : AW_OBJECT;
  c->p++;
  aw_json_space(c);
  if (c->p < c->end && *c->p == close) {
    c->p++;
    return kind;
  }
  for (;;) {
    if (kind == AW_OBJECT) {
      aw_json_space(c);
      if (!aw_json_skip_string(c)) return AW_NONE;
      aw_json_space(c);
      if (c->p >= c->end || *c->p++ != ':') return AW_NONE;
    }
    aw_json_space(c);
    if (aw_json_skip(c, depth + 1) == AW_NONE) return AW_NONE;
    aw_json_space(c);
    if (c->p >= c->end) return AW_NONE;
    uint8_t next = *c->p++;
    if (next == close) return kind;
    if (next != ',') return AW_NONE;
  }
}

/* aw_json_parse returns the value of a whole text, kind AW_NONE if it is not JSON. */
AW_API aw_val aw_json_parse(aw_str text) {
  aw_cursor c = {text.p, text.p + text.n};
  aw_json_space(&c);
  const uint8_t *from = c.p;
  aw_kind kind = aw_json_skip(&c, 0);
  aw_str raw = {from, (size_t)(c.p - from)};
  aw_json_space(&c);
  if (kind == AW_NONE || c.p != c.end) return (aw_val){AW_NONE, {NULL, 0}};
  return (aw_val){kind, raw};
}

/* aw_json_next walks an array or object: start with *at = 0. key may be NULL; for
 * an object it gets the key's text, quoted as written. False: no more. */
AW_API bool aw_json_next(aw_val in, size_t *at, aw_str *key, aw_val *out) {
  if (in.kind != AW_ARRAY && in.kind != AW_OBJECT) return false;
  aw_cursor c = {in.raw.p + (*at == 0 ? 1 : *at), in.raw.p + in.raw.n - 1};
  aw_json_space(&c);
  if (c.p >= c.end) return false;
  if (in.kind == AW_OBJECT) {
    const uint8_t *from = c.p;
    if (!aw_json_skip_string(&c)) return false;
    if (key != NULL) *key = (aw_str){from, (size_t)(c.p - from)};
    aw_json_space(&c);
    c.p++;
    aw_json_space(&c);
  }
  const uint8_t *from = c.p;
  out->kind = aw_json_skip(&c, 0);
  if (out->kind == AW_NONE) return false;
  out->raw = (aw_str){from, (size_t)(c.p - from)};
  aw_json_space(&c);
  if (c.p < c.end) c.p++;
  *at = (size_t)(c.p - in.raw.p);
  return true;
}

/* aw_json_text decodes the text of a string, escapes resolved. False: not a
 * string, or no memory. */
AW_API bool aw_json_text(aw_val v, aw_str *out) {
  *out = (aw_str){NULL, 0};
  if (v.kind != AW_STRING) return false;
  uint8_t *to = aw_alloc(v.raw.n);
  if (to == NULL) return false;
  size_t n = 0;
  aw_cursor c = {v.raw.p + 1, v.raw.p + v.raw.n - 1};
  while (c.p < c.end) {
    uint32_t u;
    if (*c.p != '\\') {
      to[n++] = *c.p++;
      continue;
    }
    c.p++;
    if (!aw_json_escape(&c, &u)) return false;
    /* An escape is never shorter than the UTF-8 it stands for. */
    if (u < 0x80) {
      to[n++] = (uint8_t)u;
    } else if (u < 0x800) {
      to[n++] = (uint8_t)(0xC0 | u >> 6);
      to[n++] = (uint8_t)(0x80 | (u & 0x3F));
    } else if (u < 0x10000) {
      to[n++] = (uint8_t)(0xE0 | u >> 12);
      to[n++] = (uint8_t)(0x80 | (u >> 6 & 0x3F));
      to[n++] = (uint8_t)(0x80 | (u & 0x3F));
    } else {
      to[n++] = (uint8_t)(0xF0 | u >> 18);
      to[n++] = (uint8_t)(0x80 | (u >> 12 & 0x3F));
      to[n++] = (uint8_t)(0x80 | (u >> 6 & 0x3F));
      to[n++] = (uint8_t)(0x80 | (u & 0x3F));
    }
  }
  *out = (aw_str){to, n};
  return true;
}

/* aw_json_get finds a member of an object by its decoded key; the last one wins,
 * as in most readers. kind AW_NONE: not there, or no memory. */
AW_API aw_val aw_json_get(aw_val object, const char *key) {
  aw_val found = {AW_NONE, {NULL, 0}}, v;
  if (object.kind != AW_OBJECT) return found;
  aw_str quoted, name;
  for (size_t at = 0; aw_json_next(object, &at, &quoted, &v);)
    if (aw_json_text((aw_val){AW_STRING, quoted}, &name) && aw_equal(name, aw_cstr(key))) found = v;
  return found;
}

/* aw_json_int reads a number written as a plain integer. False: not one, or
 * outside int64_t. */
AW_API bool aw_json_int(aw_val v, int64_t *out) {
  if (v.kind != AW_NUMBER) return false;
  bool negative = v.raw.p[0] == '-';
  uint64_t limit = (uint64_t)INT64_MAX + (negative ? 1 : 0), n = 0;
  for (size_t i = negative ? 1 : 0; i < v.raw.n; i++) {
    uint8_t d = (uint8_t)(v.raw.p[i] - '0');
    if (d > 9 || n > (limit - d) / 10) return false;
    n = n * 10 + d;
  }
  *out = negative ? (int64_t)(0 - n) : (int64_t)n;
  return true;
}

/* aw_secret_get reads a secret of [plugin.secrets] that the manifest asks for.
 * False: it is not given, cannot be read now, or no memory. */
AW_API bool aw_secret_get(const char *name, aw_str *out) {
  aw_buf b = {0};
  aw_str answer;
  *out = (aw_str){NULL, 0};
  aw_puts(&b, "{\"name\":");
  aw_put_json_string(&b, aw_cstr(name));
  aw_puts(&b, "}");
  return aw_ask(awaken_secret_get, &b, &answer) && aw_json_text(aw_json_get(aw_json_parse(answer), "value"), out);
}

AW_API bool aw_json_true(aw_val v) { return v.kind == AW_BOOL && v.raw.p[0] == 't'; }

#endif
