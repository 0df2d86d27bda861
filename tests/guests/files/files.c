/* files: reads and writes in the folders it is granted, through WASI alone, and says
 * with which number it was refused.
 */
#include "awaken_json.h"

AW_IMPORT("wasi_snapshot_preview1", "fd_prestat_get") uint32_t wasi_prestat_get(uint32_t fd, uint32_t *prestat);
AW_IMPORT("wasi_snapshot_preview1", "fd_prestat_dir_name") uint32_t wasi_prestat_dir_name(uint32_t fd, uint8_t *name, uint32_t n);
AW_IMPORT("wasi_snapshot_preview1", "path_open")
uint32_t wasi_path_open(uint32_t fd, uint32_t dirflags, const uint8_t *path, uint32_t n, uint32_t oflags, uint64_t rights,
                        uint64_t inheriting, uint32_t fdflags, uint32_t *opened);
AW_IMPORT("wasi_snapshot_preview1", "fd_read") uint32_t wasi_read(uint32_t fd, const void *iovs, uint32_t n, uint32_t *done);
AW_IMPORT("wasi_snapshot_preview1", "fd_write") uint32_t wasi_write(uint32_t fd, const void *iovs, uint32_t n, uint32_t *done);
AW_IMPORT("wasi_snapshot_preview1", "fd_close") uint32_t wasi_close(uint32_t fd);

enum { FOLLOW = 1, CREATE = 1, TRUNCATE = 8, RIGHT_READ = 2, RIGHT_WRITE = 64, NO_FOLDER = 76 };

typedef struct {
  uint32_t at, n;
} iovec;

/* open_path opens path in the granted folder whose name it begins with. */
static uint32_t open_path(aw_str path, uint32_t oflags, uint64_t rights, uint32_t *fd) {
  static uint8_t name[256];
  for (uint32_t folder = 3; folder < 16; folder++) {
    uint32_t prestat[2];
    if (wasi_prestat_get(folder, prestat) != 0) break;
    uint32_t n = prestat[1];
    if (n >= sizeof name || n + 1 >= path.n || wasi_prestat_dir_name(folder, name, n) != 0) continue;
    if (!aw_equal((aw_str){name, n}, (aw_str){path.p, n}) || path.p[n] != '/') continue;
    return wasi_path_open(folder, FOLLOW, path.p + n + 1, (uint32_t)(path.n - n - 1), oflags, rights, 0, 0, fd);
  }
  return NO_FOLDER;
}

static int refused(uint32_t number) {
  aw_buf b = {0};
  aw_puts(&b, "refused with WASI error ");
  aw_put_u64(&b, number);
  return aw_fail_buf(&b);
}

static bool argument(aw_val args, const char *key, aw_str *out) { return aw_json_text(aw_json_get(args, key), out); }

AW_EXPORT(read)
int read(void) {
  static uint8_t buf[65536];
  aw_str input, path;
  if (!aw_input(&input) || !argument(aw_json_parse(input), "path", &path)) return aw_fail("path must be a string");
  uint32_t fd, n = 0, number = open_path(path, 0, RIGHT_READ, &fd);
  if (number != 0) return refused(number);
  iovec to = {(uint32_t)(uintptr_t)buf, sizeof buf};
  number = wasi_read(fd, &to, 1, &n);
  wasi_close(fd);
  return number != 0 ? refused(number) : aw_output((aw_str){buf, n});
}

AW_EXPORT(write)
int write(void) {
  aw_str input, path, text;
  if (!aw_input(&input)) return aw_fail("out of memory");
  aw_val args = aw_json_parse(input);
  if (!argument(args, "path", &path) || !argument(args, "text", &text)) return aw_fail("path and text must be strings");
  uint32_t fd, n = 0, number = open_path(path, CREATE | TRUNCATE, RIGHT_WRITE, &fd);
  if (number != 0) return refused(number);
  iovec from = {(uint32_t)(uintptr_t)text.p, (uint32_t)text.n};
  number = wasi_write(fd, &from, 1, &n);
  wasi_close(fd);
  return number != 0 ? refused(number) : aw_output(AW_STR("written"));
}
