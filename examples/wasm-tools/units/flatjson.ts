// Reads a JSON object whose members are texts and numbers, which is all that the
// input schema of this plugin lets through. Anything else is refused.

/** Member values as decoded text, keyed by name; isText tells the two kinds apart. */
export class Flat {
  values: Map<string, string> = new Map();
  isText: Map<string, bool> = new Map();

  text(name: string): string | null {
    return this.values.has(name) && this.isText.get(name) ? this.values.get(name) : null;
  }

  /** NaN where there is no such number. */
  number(name: string): f64 {
    return this.values.has(name) && !this.isText.get(name) ? F64.parseFloat(this.values.get(name)) : NaN;
  }
}

/** The object, or null if the text is not one. */
export function parseFlat(text: string): Flat | null {
  const reader = new Reader(text);
  const flat = new Flat();
  if (!reader.take("{")) return null;
  if (!reader.take("}")) {
    do {
      const name = reader.string();
      if (name === null || !reader.take(":")) return null;
      const isText = reader.peek() == 0x22;
      const value = isText ? reader.string() : reader.number();
      if (value === null) return null;
      flat.values.set(name, value);
      flat.isText.set(name, isText);
    } while (reader.take(","));
    if (!reader.take("}")) return null;
  }
  return reader.peek() == -1 ? flat : null;
}

class Reader {
  private at: i32 = 0;
  constructor(private src: string) {}

  /** The next code unit that is not white space, -1 at the end. */
  peek(): i32 {
    for (; this.at < this.src.length; this.at++) {
      const c = this.src.charCodeAt(this.at);
      if (c != 0x20 && c != 0x09 && c != 0x0a && c != 0x0d) return c;
    }
    return -1;
  }

  take(one: string): bool {
    if (this.peek() != one.charCodeAt(0)) return false;
    this.at++;
    return true;
  }

  /** A number as written, if it has JSON's form. */
  number(): string | null {
    this.peek();
    const from = this.at;
    if (this.unit() == 0x2d) this.at++;
    const zero = this.unit() == 0x30;
    const whole = this.digits();
    if (whole == 0 || (zero && whole > 1)) return null;
    if (this.unit() == 0x2e) {
      this.at++;
      if (this.digits() == 0) return null;
    }
    if ((this.unit() | 0x20) == 0x65) {
      this.at++;
      if (this.unit() == 0x2b || this.unit() == 0x2d) this.at++;
      if (this.digits() == 0) return null;
    }
    return this.src.substring(from, this.at);
  }

  string(): string | null {
    if (!this.take('"')) return null;
    let out = "";
    while (this.at < this.src.length) {
      const c = this.src.charCodeAt(this.at++);
      if (c == 0x22) return out;
      if (c < 0x20) return null;
      if (c != 0x5c) {
        out += String.fromCharCode(c);
        continue;
      }
      const e = this.unit();
      this.at++;
      if (e == 0x22 || e == 0x5c || e == 0x2f) out += String.fromCharCode(e);
      else if (e == 0x62) out += "\b";
      else if (e == 0x66) out += "\f";
      else if (e == 0x6e) out += "\n";
      else if (e == 0x72) out += "\r";
      else if (e == 0x74) out += "\t";
      else if (e == 0x75) {
        const u = this.hex4();
        if (u < 0) return null;
        out += String.fromCharCode(u);
      } else return null;
    }
    return null;
  }

  private unit(): i32 {
    return this.at < this.src.length ? this.src.charCodeAt(this.at) : -1;
  }

  private digits(): i32 {
    const from = this.at;
    while (this.unit() >= 0x30 && this.unit() <= 0x39) this.at++;
    return this.at - from;
  }

  private hex4(): i32 {
    let v = 0;
    for (let i = 0; i < 4; i++) {
      const c = this.unit();
      const low = c | 0x20;
      if (c >= 0x30 && c <= 0x39) v = v * 16 + (c - 0x30);
      else if (low >= 0x61 && low <= 0x66) v = v * 16 + (low - 0x57);
      else return -1;
      this.at++;
    }
    return v;
  }
}

/** Text as a quoted JSON string. */
export function quote(text: string): string {
  const hex = "0123456789abcdef";
  let out = '"';
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c == 0x22 || c == 0x5c) out += "\\" + text.charAt(i);
    else if (c < 0x20) out += "\\u00" + hex.charAt(c >> 4) + hex.charAt(c & 15);
    else out += text.charAt(i);
  }
  return out + '"';
}
