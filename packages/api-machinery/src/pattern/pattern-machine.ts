import type { CharacterSet, PatternNode } from "./pattern-syntax.ts";

type Instruction =
  | { readonly op: "set"; readonly accepts: (code: number) => boolean }
  | { readonly op: "assert"; readonly at: string }
  | { readonly op: "split"; readonly targets: number[] }
  | { readonly op: "match" };

const maxInstructions = 50_000;

/**
 * A test for a pattern that takes time in proportion to the text, whatever the pattern: all ways to match advance
 * together, one character at a time (Thompson's construction).
 */
export function createPatternMachine(node: PatternNode): (text: string) => boolean {
  const program: Instruction[] = [];
  emit(node, program);
  program.push({ op: "match" });
  return (text) => run(program, text);
}

/** Appends the instructions of `node`; each continues at the next, a `split` at its targets. */
function emit(node: PatternNode, program: Instruction[]): void {
  if (program.length > maxInstructions) throw new SyntaxError("error parsing regexp: expression too large");
  switch (node.kind) {
    case "set":
      program.push({ op: "set", accepts: acceptor(node.set) });
      break;
    case "assert":
      program.push({ op: "assert", at: node.at });
      break;
    case "sequence":
      for (const child of node.nodes) emit(child, program);
      break;
    case "choice": {
      const entry: number[] = [];
      const exits: number[][] = [];
      program.push({ op: "split", targets: entry });
      for (const child of node.nodes) {
        entry.push(program.length);
        emit(child, program);
        const exit: number[] = [];
        exits.push(exit);
        program.push({ op: "split", targets: exit });
      }
      for (const exit of exits) exit.push(program.length);
      break;
    }
    case "repeat": {
      for (let count = 0; count < node.min; count++) emit(node.node, program);
      if (node.max === Infinity) {
        const loop: number[] = [];
        const start = program.length;
        program.push({ op: "split", targets: loop });
        loop.push(program.length);
        emit(node.node, program);
        program.push({ op: "split", targets: [start] });
        loop.push(program.length);
      } else {
        const exits: number[][] = [];
        for (let count = node.min; count < node.max; count++) {
          const skip: number[] = [];
          program.push({ op: "split", targets: skip });
          skip.push(program.length);
          emit(node.node, program);
          exits.push(skip);
        }
        for (const skip of exits) skip.push(program.length);
      }
    }
  }
}

function acceptor(set: CharacterSet): (code: number) => boolean {
  const properties = set.properties.map(({ name, negated }) => new RegExp(`\\${negated ? "P" : "p"}{${name}}`, "u"));
  return (code) => {
    const inside =
      set.ranges.some(([low, high]) => code >= low && code <= high) ||
      properties.some((property) => property.test(String.fromCodePoint(code)));
    return inside !== set.negated;
  };
}

function run(program: readonly Instruction[], text: string): boolean {
  const codes = Array.from(text, (char) => char.codePointAt(0) ?? 0);
  const seen = new Int32Array(program.length).fill(-1);
  let current: number[] = [];
  let next: number[] = [];
  for (let at = 0; at <= codes.length; at++) {
    // The pattern may begin anywhere, unless it says otherwise itself.
    if (follow(program, 0, at, codes, seen, current)) return true;
    const code = codes[at];
    if (code === undefined) return false;
    for (const state of current) {
      const instruction = program[state];
      if (instruction?.op === "set" && instruction.accepts(code)) {
        if (follow(program, state + 1, at + 1, codes, seen, next)) return true;
      }
    }
    [current, next] = [next, current];
    next.length = 0;
  }
  return false;
}

/** Adds every state reached from `start` without a character to `states`; true where the match is one of them. */
function follow(
  program: readonly Instruction[],
  start: number,
  at: number,
  codes: readonly number[],
  seen: Int32Array,
  states: number[],
): boolean {
  const pending = [start];
  for (let state = pending.pop(); state !== undefined; state = pending.pop()) {
    if (seen[state] === at) continue;
    seen[state] = at;
    const instruction = program[state];
    if (instruction === undefined) continue;
    if (instruction.op === "match") return true;
    if (instruction.op === "set") states.push(state);
    else if (instruction.op === "split") pending.push(...instruction.targets);
    else if (holds(instruction.at, at, codes)) pending.push(state + 1);
  }
  return false;
}

function holds(assertion: string, at: number, codes: readonly number[]): boolean {
  switch (assertion) {
    case "begin":
      return at === 0;
    case "end":
      return at === codes.length;
    case "beginLine":
      return at === 0 || codes[at - 1] === 10;
    case "endLine":
      return at === codes.length || codes[at] === 10;
    default:
      return (isWord(codes[at - 1]) !== isWord(codes[at])) === (assertion === "word");
  }
}

function isWord(code: number | undefined): boolean {
  if (code === undefined) return false;
  return (code >= 48 && code <= 57) || (code >= 65 && code <= 90) || code === 95 || (code >= 97 && code <= 122);
}
