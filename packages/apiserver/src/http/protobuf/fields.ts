import { additionalFields } from "./additional-fields.ts";
import { fieldTable } from "./field-table.generated.ts";

/** A field of a message. */
export interface Field {
  /** The name in JSON. */
  readonly name: string;
  /** A letter for scalars and well-known types (see the generator), or the name of a message. For a map, the type of its values. */
  readonly type: string;
  /** `inlined`: the fields of the message belong to the enclosing one. */
  readonly shape: "single" | "repeated" | "map" | "inlined";
  /** Whether zero, false and the empty string are values rather than absence. */
  readonly keepsZero: boolean;
}

let lines: ReadonlyMap<string, string> | undefined;
const parsed = new Map<string, ReadonlyMap<number, Field>>();

/** The fields of a message (`core.v1.Pod`) by number; undefined if it is unknown. Parses the generated table lazily. */
export function fieldsOf(message: string): ReadonlyMap<number, Field> | undefined {
  const known = parsed.get(message);
  if (known !== undefined) return known;
  lines ??= new Map(`${fieldTable}\n${additionalFields}`.split("\n").map((line) => line.split("\t") as [string, string]));
  const line = lines.get(message);
  if (line === undefined) return undefined;
  const fields = new Map(line.split(" ").filter(Boolean).map(parseField));
  parsed.set(message, fields);
  return fields;
}

function parseField(text: string): [number, Field] {
  const match = /^(\d+)([<!]?)([^:]+):([*%]?)(.+)$/.exec(text);
  if (match === null) throw new TypeError(`malformed field ${JSON.stringify(text)} in the generated table`);
  const [, number, flag, name = "", prefix, type = ""] = match;
  const shape = flag === "<" ? "inlined" : prefix === "*" ? "repeated" : prefix === "%" ? "map" : "single";
  return [Number(number), { name, type, shape, keepsZero: flag === "!" }];
}
