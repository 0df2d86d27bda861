// Gives an open file another number, and says what comes of it.
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include <wasi/api.h>

int main(void) {
  static const unsigned to[] = {5, 1023, 1024, 0x7fffffff, 0xffffffff};
  for (unsigned i = 0; i < sizeof to / sizeof *to; i++) {
    int fd = open("/awaken/call.json", O_RDONLY);
    unsigned e = __wasi_fd_renumber(fd, to[i]);
    char c = '?';
    if (e == 0) read((int)to[i], &c, 1);
    printf("%u: %u %c\n", to[i], e, c);
  }
  int n = 0;
  while (n < 100000 && open("/awaken/call.json", O_RDONLY) >= 0) n++;
  printf("more files: %s\n", n < 100 ? "few" : "many");
  n = open("/awaken/call.json", O_RDONLY);
  printf("then: %d\n", n);
  return 0;
}
