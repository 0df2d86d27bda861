// The units: value in the base unit of the dimension = value * factor + offset.

export class Unit {
  constructor(
    public name: string,
    public dimension: string,
    public factor: f64,
    public offset: f64,
    /** The unit of the other system that a person would expect. */
    public metric: string,
    public imperial: string,
  ) {}
}

const units = new Map<string, Unit>();

function add(name: string, dimension: string, factor: f64, metric: string, imperial: string, offset: f64 = 0): void {
  units.set(name, new Unit(name, dimension, factor, offset, metric, imperial));
}

add("mm", "length", 0.001, "mm", "in");
add("cm", "length", 0.01, "cm", "in");
add("m", "length", 1, "m", "ft");
add("km", "length", 1000, "km", "mi");
add("in", "length", 0.0254, "cm", "in");
add("ft", "length", 0.3048, "m", "ft");
add("yd", "length", 0.9144, "m", "yd");
add("mi", "length", 1609.344, "km", "mi");
add("g", "mass", 0.001, "g", "oz");
add("kg", "mass", 1, "kg", "lb");
add("t", "mass", 1000, "t", "lb");
add("oz", "mass", 0.028349523125, "g", "oz");
add("lb", "mass", 0.45359237, "kg", "lb");
add("ml", "volume", 0.001, "ml", "floz");
add("l", "volume", 1, "l", "gal");
add("floz", "volume", 0.0295735295625, "ml", "floz");
add("gal", "volume", 3.785411784, "l", "gal");
add("m/s", "speed", 1, "m/s", "mph");
add("km/h", "speed", 1 / 3.6, "km/h", "mph");
add("mph", "speed", 0.44704, "km/h", "mph");
add("C", "temperature", 1, "C", "F", 273.15);
add("F", "temperature", 5.0 / 9.0, "C", "F", 459.67 * 5 / 9);
add("K", "temperature", 1, "C", "F");

export function lookup(name: string): Unit | null {
  return units.has(name) ? units.get(name) : null;
}

export function names(): string {
  return units.keys().join(", ");
}

export function converted(value: f64, from: Unit, to: Unit): f64 {
  let result = (value * from.factor + from.offset - to.offset) / to.factor;
  // Near zero, a scale with an offset leaves only what rounding lost: 32 F is 0 C.
  if (from.offset != to.offset && Math.abs(result) < 1e-9) result = 0;
  return rounded(result);
}

/** The value to ten significant digits, so that 0.1 + 0.2 reads as 0.3. */
function rounded(value: f64): f64 {
  if (value == 0 || !isFinite(value)) return value;
  const digits = 9 - Math.floor(Math.log10(Math.abs(value)));
  // Outside this range the scale itself would lose digits or overflow.
  if (digits < -290 || digits > 290) return value;
  if (digits < 0) {
    const scale = Math.pow(10, -digits);
    return Math.round(value / scale) * scale;
  }
  const scale = Math.pow(10, digits);
  return Math.round(value * scale) / scale;
}
