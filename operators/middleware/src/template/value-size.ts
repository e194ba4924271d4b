/** Depth to which values are converted to text. The converters are recursive. */
const maxDepth = 64;

/** What a value is, converted to text. */
export interface ValueSize {
  /** Values in it. One that is referenced several times counts each time, as it does in the text. */
  readonly nodes: number;
  /** Length of all texts and keys in it, and one character per node. */
  readonly characters: number;
}

/**
 * Measures a value before it is converted: a template can build a list that contains itself twice, repeatedly. Undefined if it has more
 * than `max`, or is nested deeper than 64 levels.
 */
export function sizeOf(value: unknown, max: ValueSize): ValueSize | undefined {
  const meter = new Meter(max);
  return meter.add(value, 0) ? meter : undefined;
}

/** Functions that do not look into the values of a list or a map. */
const shallow: ReadonlySet<string> = new Set([
  ..."and or not default coalesce empty ternary required eq ne index len hasKey get keys dict list".split(" "),
]);

/** Whether a function may convert maps and lists to text. */
export function isConverter(name: string): boolean {
  return !shallow.has(name);
}

/** Elements of a list or a map, or 0. */
export function lengthOf(value: unknown): number {
  if (Array.isArray(value)) return value.length;
  return typeof value === "object" && value !== null ? Object.keys(value).length : 0;
}

class Meter implements ValueSize {
  nodes = 0;
  characters = 0;
  readonly #max: ValueSize;

  constructor(max: ValueSize) {
    this.#max = max;
  }

  /** Returns false if the value is too large or too deep. */
  add(value: unknown, depth: number): boolean {
    this.nodes += 1;
    this.characters += 1 + (typeof value === "string" ? value.length : 0);
    if (this.characters > this.#max.characters || this.nodes > this.#max.nodes) return false;
    if (typeof value !== "object" || value === null) return true;
    if (depth >= maxDepth) return false;
    if (Array.isArray(value)) return value.every((each) => this.add(each, depth + 1));
    return Object.entries(value).every(([key, each]) => {
      this.characters += key.length;
      return this.add(each, depth + 1);
    });
  }
}
