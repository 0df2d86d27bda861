/* workspace: the files of a run: write, append, read, list.
 *
 * The module is a WASI reactor: the C library does the file work, and what it may
 * reach is the one folder that the host grants it, /workspace. Nothing here checks
 * where a path leads: the host lets none lead outside.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "awaken_json.h"

#define ROOT "/workspace/"
#define MAX_PATH 1024
#define MAX_FILES 10000
#define MAX_TEXT (4 << 20) /* bytes of a file that read gives whole */

static int failed(const char *what, aw_str path, int number) {
  aw_buf b = {0};
  aw_puts(&b, what);
  aw_puts(&b, " ");
  aw_put(&b, path);
  aw_puts(&b, ": ");
  aw_puts(&b, strerror(number));
  return aw_fail_buf(&b);
}

/* place makes the C string of a path below the workspace. */
static bool place(aw_str path, char out[sizeof ROOT + MAX_PATH]) {
  if (path.n == 0 || path.n > MAX_PATH || memchr(path.p, 0, path.n) != NULL) return false;
  memcpy(out, ROOT, sizeof ROOT - 1);
  memcpy(out + sizeof ROOT - 1, path.p, path.n);
  out[sizeof ROOT - 1 + path.n] = 0;
  return true;
}

/* make_parents makes the folders that a file is to be in. */
static int make_parents(char *name) {
  for (char *p = name + sizeof ROOT - 1; (p = strchr(p, '/')) != NULL; p++) {
    *p = 0;
    int status = mkdir(name, 0777);
    *p = '/';
    if (status != 0 && errno != EEXIST) return errno;
  }
  return 0;
}

static int put(const char *mode, const char *done) {
  aw_str input, path, text;
  char name[sizeof ROOT + MAX_PATH];
  if (!aw_input(&input)) return aw_fail("out of memory");
  aw_val args = aw_json_parse(input);
  if (!aw_json_text(aw_json_get(args, "path"), &path) || !place(path, name)) return aw_fail("path must be a text of 1 to 1024 bytes");
  if (!aw_json_text(aw_json_get(args, "text"), &text)) return aw_fail("text must be a text");
  int number = make_parents(name);
  if (number != 0) return failed("cannot make the folders of", path, number);
  FILE *f = fopen(name, mode);
  if (f == NULL) return failed("cannot write", path, errno);
  bool whole = fwrite(text.p, 1, text.n, f) == text.n;
  number = errno;
  if (fclose(f) != 0 && whole) {
    whole = false;
    number = errno;
  }
  if (!whole) return failed("cannot write all of", path, number);
  aw_buf out = {0};
  aw_puts(&out, done);
  aw_put_u64(&out, text.n);
  aw_puts(&out, text.n == 1 ? " byte to " : " bytes to ");
  aw_put(&out, path);
  return aw_finish(&out);
}

AW_EXPORT(write_file)
int write_file(void) { return put("w", "Wrote "); }

AW_EXPORT(append_file)
int append_file(void) { return put("a", "Appended "); }

static bool is_utf8(aw_str s) {
  for (aw_cursor c = {s.p, s.p + s.n}; c.p < c.end;)
    if (*c.p < 0x80) c.p++;
    else if (!aw_utf8_step(&c)) return false;
  return true;
}

/* The input is the bare path (encoding "text:path"), the output the bare text. */
AW_EXPORT(read_file)
int read_file(void) {
  aw_str path;
  char name[sizeof ROOT + MAX_PATH];
  if (!aw_input(&path)) return aw_fail("out of memory");
  if (!place(path, name)) return aw_fail("path must be a text of 1 to 1024 bytes");
  FILE *f = fopen(name, "r");
  if (f == NULL) return failed("cannot read", path, errno);
  uint8_t *text = aw_alloc(MAX_TEXT + 1);
  if (text == NULL) return aw_fail("out of memory");
  size_t n = fread(text, 1, MAX_TEXT + 1, f);
  if (ferror(f)) return failed("cannot read", path, errno);
  if (n > MAX_TEXT) return aw_fail("the file is larger than 4 MiB");
  if (!is_utf8((aw_str){text, n})) return aw_fail("the file is no text: it is not UTF-8");
  return aw_output((aw_str){text, n});
}

typedef struct {
  char *path; /* relative to the workspace */
  uint64_t bytes;
} entry;

typedef struct {
  entry *at;
  size_t n;
  int number; /* what went wrong */
} listing;

static char *joined(const char *a, const char *b) {
  size_t n = strlen(a), m = strlen(b);
  char *s = aw_alloc(n + m + 1);
  if (s == NULL) return NULL;
  memcpy(s, a, n);
  memcpy(s + n, b, m + 1);
  return s;
}

/* collect adds the regular files of a folder, whose name ends with a slash unless it
 * is the workspace itself. A link is named in no list: it is no file. */
static void collect(listing *all, const char *folder, int depth) {
  if (depth > 64) {
    all->number = ENAMETOOLONG;
    return;
  }
  char *name = joined(ROOT, folder);
  DIR *dir = name == NULL ? NULL : opendir(name);
  if (dir == NULL) {
    all->number = errno;
    return;
  }
  for (struct dirent *d; all->number == 0 && (d = readdir(dir)) != NULL;) {
    if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0) continue;
    struct stat st;
    char *path = joined(folder, d->d_name), *full = path == NULL ? NULL : joined(ROOT, path);
    if (full == NULL) {
      all->number = ENOMEM;
    } else if (lstat(full, &st) != 0) {
      if (errno != ENOENT) all->number = errno; /* removed meanwhile */
    } else if (S_ISDIR(st.st_mode)) {
      char *below = joined(path, "/");
      if (below == NULL) all->number = ENOMEM;
      else collect(all, below, depth + 1);
    } else if (S_ISREG(st.st_mode)) {
      if (all->n == MAX_FILES) all->number = EOVERFLOW;
      else all->at[all->n++] = (entry){path, (uint64_t)st.st_size};
    }
  }
  closedir(dir);
}

static int by_path(const void *a, const void *b) { return strcmp(((const entry *)a)->path, ((const entry *)b)->path); }

AW_EXPORT(list_files)
int list_files(void) {
  listing all = {aw_alloc(MAX_FILES * sizeof(entry)), 0, 0};
  if (all.at == NULL) return aw_fail("out of memory");
  collect(&all, "", 0);
  if (all.number == EOVERFLOW) return aw_fail("there are more than 10,000 files");
  if (all.number != 0) return failed("cannot list", AW_STR("the workspace"), all.number);
  qsort(all.at, all.n, sizeof(entry), by_path);
  aw_buf out = {0};
  aw_puts(&out, "{\"files\":[");
  for (size_t i = 0; i < all.n; i++) {
    aw_str path = aw_cstr(all.at[i].path);
    if (!is_utf8(path)) return aw_fail("the name of a file is not UTF-8");
    aw_puts(&out, i == 0 ? "{\"path\":" : ",{\"path\":");
    aw_put_json_string(&out, path);
    aw_puts(&out, ",\"bytes\":");
    aw_put_u64(&out, all.at[i].bytes);
    aw_puts(&out, "}");
  }
  aw_puts(&out, "]}");
  return aw_finish(&out);
}
