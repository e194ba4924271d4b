import type { Position } from "./template-error.ts";

/** A part of a template. Go's text/template is the language; see the package documentation there. */
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

/** An operand, or a function with its arguments. */
export interface Command {
  readonly at: Position;
  readonly operands: readonly Operand[];
}

/** A value as it is written. `fields` of anything but a literal are looked up on it in turn. */
export type Operand = { readonly at: Position; readonly fields: readonly string[] } & (
  | { readonly kind: "dot" }
  | { readonly kind: "variable"; readonly name: string }
  | { readonly kind: "literal"; readonly value: string | number | boolean | null }
  | { readonly kind: "function"; readonly name: string }
  | { readonly kind: "pipe"; readonly pipe: Pipe }
);

/** A parsed template with the named ones that it defines. */
export interface Template {
  readonly name: string;
  readonly body: readonly Node[];
  readonly defined: ReadonlyMap<string, readonly Node[]>;
}
