// units: a plugin that converts units of length, mass, volume, speed and
// temperature. Without a unit to convert to, it takes the one of the operator's
// system: [plugin.config] units = "metric" or "imperial".

import { answer, config, fail, input } from "./extism";
import { parseFlat, quote } from "./flatjson";
import { converted, lookup, names } from "./table";

export function convert(): i32 {
  const args = parseFlat(input());
  if (args === null) return fail("the input is not what the schema says");
  const value = args.number("value");
  const fromName = args.text("from");
  if (!isFinite(value) || fromName === null) return fail("value must be a number, from a unit");

  const from = lookup(fromName);
  if (from === null) return fail("unknown unit " + quote(fromName) + ": known are " + names());
  let toName = args.text("to");
  if (toName === null) {
    const system = config("units");
    if (system === null || system == "metric") toName = from.metric;
    else if (system == "imperial") toName = from.imperial;
    else return fail("[plugin.config] units is " + quote(system) + ": metric and imperial are known");
  }
  const to = lookup(toName);
  if (to === null) return fail("unknown unit " + quote(toName) + ": known are " + names());
  if (from.dimension != to.dimension) {
    return fail(quote(from.name) + " measures " + from.dimension + ", " + quote(to.name) + " measures " + to.dimension);
  }

  const result = converted(value, from, to);
  if (!isFinite(result)) return fail("the result is too large");
  return answer('{"value":' + number(result) + ',"unit":' + quote(to.name) + ',"dimension":' + quote(to.dimension) + "}");
}

/** A finite number in JSON's form, whole numbers without ".0". */
function number(value: f64): string {
  const text = value.toString();
  return text.endsWith(".0") ? text.substring(0, text.length - 2) : text;
}
