/* checksum: SHA-256 and CRC-32 of bytes, as a WASI command module.
 *
 * argv[1] names the algorithm, standard input is the data (encoding
 * "base64:data": the host decodes it), standard output is one JSON object.
 * A failure is an exit status other than 0 with a line on standard error.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- SHA-256, FIPS 180-4 */

typedef struct {
  uint32_t h[8];
  uint64_t bytes;
  uint8_t block[64];
} sha256;

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate_right(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void sha256_block(sha256 *s, const uint8_t *p) {
  uint32_t w[64];
  for (int i = 0; i < 16; i++)
    w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
  for (int i = 16; i < 64; i++) {
    uint32_t s0 = rotate_right(w[i - 15], 7) ^ rotate_right(w[i - 15], 18) ^ w[i - 15] >> 3;
    uint32_t s1 = rotate_right(w[i - 2], 17) ^ rotate_right(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  uint32_t a = s->h[0], b = s->h[1], c = s->h[2], d = s->h[3];
  uint32_t e = s->h[4], f = s->h[5], g = s->h[6], h = s->h[7];
  for (int i = 0; i < 64; i++) {
    uint32_t s1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
    uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + round_constants[i] + w[i];
    uint32_t s0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
    uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  s->h[0] += a, s->h[1] += b, s->h[2] += c, s->h[3] += d;
  s->h[4] += e, s->h[5] += f, s->h[6] += g, s->h[7] += h;
}

static void sha256_start(sha256 *s) {
  static const uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memset(s, 0, sizeof *s);
  memcpy(s->h, h, sizeof h);
}

static void sha256_add(sha256 *s, const uint8_t *p, size_t n) {
  while (n > 0) {
    size_t at = (size_t)(s->bytes % 64), take = 64 - at < n ? 64 - at : n;
    memcpy(s->block + at, p, take);
    s->bytes += take;
    p += take;
    n -= take;
    if (at + take == 64) sha256_block(s, s->block);
  }
}

static void sha256_end(sha256 *s, uint8_t digest[32]) {
  uint64_t bits = s->bytes * 8;
  uint8_t mark = 0x80, zero = 0, length[8];
  sha256_add(s, &mark, 1);
  while (s->bytes % 64 != 56) sha256_add(s, &zero, 1);
  for (int i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
  sha256_add(s, length, 8);
  for (int i = 0; i < 32; i++) digest[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}

/* ---- CRC-32 as in ISO 3309: polynomial EDB88320, reflected */

static uint32_t crc32_add(uint32_t crc, const uint8_t *p, size_t n) {
  static uint32_t table[256];
  if (table[1] == 0) {
    for (uint32_t i = 0; i < 256; i++) {
      uint32_t c = i;
      for (int bit = 0; bit < 8; bit++) c = c >> 1 ^ (c & 1 ? 0xEDB88320u : 0);
      table[i] = c;
    }
  }
  crc = ~crc;
  for (size_t i = 0; i < n; i++) crc = table[(crc ^ p[i]) & 0xFF] ^ crc >> 8;
  return ~crc;
}

/* ---- the command */

int main(int argc, char **argv) {
  static uint8_t chunk[65536];
  const char *algorithm = argc == 2 ? argv[1] : "";
  int want_sha = strcmp(algorithm, "sha256") == 0, want_crc = strcmp(algorithm, "crc32") == 0;
  if (!want_sha && !want_crc) {
    fprintf(stderr, "one argument is needed: sha256 or crc32\n");
    return 2;
  }
  sha256 s;
  uint32_t crc = 0;
  uint64_t bytes = 0;
  sha256_start(&s);
  for (;;) {
    ssize_t n = read(STDIN_FILENO, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      fprintf(stderr, "reading the data: %s\n", strerror(errno));
      return 1;
    }
    if (n == 0) break;
    bytes += (uint64_t)n;
    if (want_sha) sha256_add(&s, chunk, (size_t)n);
    else crc = crc32_add(crc, chunk, (size_t)n);
  }

  uint8_t digest[32];
  size_t size = 32;
  if (want_sha) {
    sha256_end(&s, digest);
  } else {
    size = 4;
    for (int i = 0; i < 4; i++) digest[i] = (uint8_t)(crc >> (24 - 8 * i));
  }
  printf("{\"algorithm\":\"%s\",\"bytes\":%llu,\"hex\":\"", algorithm, (unsigned long long)bytes);
  for (size_t i = 0; i < size; i++) printf("%02x", digest[i]);
  printf("\"}\n");
  if (fflush(stdout) != 0) {
    fprintf(stderr, "writing the answer: %s\n", strerror(errno));
    return 1;
  }
  return 0;
}
