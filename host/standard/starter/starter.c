/* hello: the plugin that `awaken-host init` writes, the smallest useful one.
 *
 * greet and list_notes only read. add_note asks for a change of run state, which
 * the host commits and publishes with the batch; the module itself keeps nothing.
 */
#include "awaken_json.h"

/* string_argument decodes one text argument of the call. */
static bool string_argument(const char *name, aw_str *out) {
  aw_str input;
  return aw_input(&input) && aw_json_text(aw_json_get(aw_json_parse(input), name), out);
}

AW_EXPORT(greet)
int greet(void) {
  aw_str name;
  if (!string_argument("name", &name)) return aw_fail("name must be a text");
  aw_buf out = {0};
  aw_puts(&out, "Hello, ");
  aw_put(&out, name);
  aw_puts(&out, "!");
  return aw_finish(&out);
}

AW_EXPORT(add_note)
int add_note(void) {
  aw_str note;
  if (!string_argument("text", &note)) return aw_fail("text must be a text");
  aw_buf out = {0};
  aw_puts(&out, "{\"content\":[{\"type\":\"text\",\"text\":\"Noted.\"}],\"is_error\":false,"
                "\"state\":[{\"op\":\"append\",\"key\":\"notes\",\"value\":");
  aw_put_json_string(&out, note);
  aw_puts(&out, "}]}");
  return aw_finish(&out);
}

AW_EXPORT(list_notes)
int list_notes(void) {
  aw_str answer;
  if (!aw_state_get("notes", &answer)) return aw_fail("the notes cannot be read");
  aw_val notes = aw_json_get(aw_json_parse(answer), "value");
  return aw_output(notes.kind == AW_ARRAY ? notes.raw : AW_STR("[]"));
}
