import { fieldTable } from "./field-table.generated.ts";

/** A field of a message: its name in JSON and what it holds. */
export interface Field {
  readonly name: string;
  /** A letter for what is no message of its own (see the generator), else a message's name. Of a map: of its values. */
  readonly type: string;
  /** `inlined`: the fields of the message are those of the one around it. */
  readonly shape: "single" | "repeated" | "map" | "inlined";
  /** Zero, false and the empty text are values, not absence. */
  readonly keepsZero: boolean;
}

let lines: ReadonlyMap<string, string> | undefined;
const parsed = new Map<string, ReadonlyMap<number, Field>>();

/** The fields of a message (`core.v1.Pod`) by number; undefined when it is not known. */
export function fieldsOf(message: string): ReadonlyMap<number, Field> | undefined {
  const known = parsed.get(message);
  if (known !== undefined) return known;
  lines ??= new Map(fieldTable.split("\n").map((line) => line.split("\t") as [string, string]));
  const line = lines.get(message);
  if (line === undefined) return undefined;
  const fields = new Map(line.split(" ").filter(Boolean).map(parseField));
  parsed.set(message, fields);
  return fields;
}

function parseField(text: string): [number, Field] {
  const match = /^(\d+)([<!]?)([^:]+):([*%]?)(.+)$/.exec(text);
  if (match === null) throw new Error(`malformed field ${JSON.stringify(text)} in the generated table`);
  const [, number, flag, name = "", prefix, type = ""] = match;
  const shape = flag === "<" ? "inlined" : prefix === "*" ? "repeated" : prefix === "%" ? "map" : "single";
  return [Number(number), { name, type, shape, keepsZero: flag === "!" }];
}
