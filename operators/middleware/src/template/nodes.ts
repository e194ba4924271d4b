import type { Position } from "./template-error.ts";

/** A node of a template. The language is Go's text/template. */
export type Node =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "action"; readonly pipe: Pipe; readonly at: Position }
  | { readonly kind: "if" | "with"; readonly pipe: Pipe; readonly body: readonly Node[]; readonly otherwise: readonly Node[] }
  | { readonly kind: "range"; readonly pipe: Pipe; readonly body: readonly Node[]; readonly otherwise: readonly Node[] }
  | { readonly kind: "break" | "continue"; readonly at: Position }
  | { readonly kind: "template"; readonly name: string; readonly pipe: Pipe | undefined; readonly at: Position };

/** `$a, $b := command | command`. */
export interface Pipe {
  readonly at: Position;
  readonly variables: readonly string[];
  readonly isAssignment: boolean;
  readonly commands: readonly Command[];
}

/** An operand, or a function call with arguments. */
export interface Command {
  readonly at: Position;
  readonly operands: readonly Operand[];
}

/** An operand. The `fields` of a non-literal are looked up in turn. */
export type Operand = { readonly at: Position; readonly fields: readonly string[] } & (
  | { readonly kind: "dot" }
  | { readonly kind: "variable"; readonly name: string }
  | { readonly kind: "literal"; readonly value: string | number | boolean | null }
  | { readonly kind: "function"; readonly name: string }
  | { readonly kind: "pipe"; readonly pipe: Pipe }
);

/** A parsed template and the named templates that it defines. */
export interface Template {
  readonly name: string;
  readonly body: readonly Node[];
  readonly defined: ReadonlyMap<string, readonly Node[]>;
}
