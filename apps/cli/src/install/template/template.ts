import type { JsonValue } from "@keelson/api-machinery";

/*
 * Objects with open values. The same template is evaluated to objects by `keelson install` and printed as a template of the Helm chart,
 * so both always render the same objects.
 */

/** A JSON value with open parts. */
export type Template =
  | string
  | number
  | boolean
  | null
  | Expression
  | Choice
  | Splice
  | Merge
  | readonly TemplateItem[]
  | TemplateMap;

/** A map with open parts. An entry whose value is a {@link Conditional} is omitted if the condition is false. */
export interface TemplateMap {
  readonly [key: string]: Template | Conditional;
}

/** An element of a list. */
export type TemplateItem = Template | Conditional;

/** A string or another JSON value that is computed from the values. */
export class Expression {
  readonly parts: readonly ExpressionPart[];

  constructor(parts: readonly ExpressionPart[]) {
    this.parts = parts;
  }
}

/** A part of an {@link Expression}. */
export type ExpressionPart =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "value"; readonly path: ValuePath }
  | { readonly kind: "namespace" };

/** Path of a value: `robots.replicas`. */
export type ValuePath = string;

/** The first template if the condition holds, else the second. */
export class Choice {
  readonly condition: Condition;
  readonly whenTrue: Template;
  readonly whenFalse: Template;

  constructor(condition: Condition, whenTrue: Template, whenFalse: Template) {
    this.condition = condition;
    this.whenTrue = whenTrue;
    this.whenFalse = whenFalse;
  }
}

/** The elements of a list value, as elements of the list that contains this. */
export class Splice {
  readonly path: ValuePath;

  constructor(path: ValuePath) {
    this.path = path;
  }
}

/** A map with the entries of a map value added. They must not repeat its keys. */
export class Merge {
  readonly map: TemplateMap;
  readonly path: ValuePath;

  constructor(map: TemplateMap, path: ValuePath) {
    this.map = map;
    this.path = path;
  }
}

/** An entry or element that exists only if a condition holds. */
export class Conditional {
  readonly condition: Condition;
  readonly content: Template;

  constructor(condition: Condition, content: Template) {
    this.condition = condition;
    this.content = content;
  }
}

/** A condition on values. `isSet` is Go's truth: neither false, 0, "" nor empty. */
export type Condition =
  | { readonly kind: "isSet"; readonly path: ValuePath }
  | { readonly kind: "equals"; readonly path: ValuePath; readonly value: string }
  | { readonly kind: "not"; readonly condition: Condition }
  | { readonly kind: "all"; readonly conditions: readonly Condition[] }
  | { readonly kind: "any"; readonly conditions: readonly Condition[] };

/** What a template is rendered with. */
export interface Rendering {
  readonly values: JsonValue;
  /** The namespace that Keelson is installed in. */
  readonly namespace: string;
}

/** The value at `path`, of any type. */
export const value = (path: ValuePath): Expression => new Expression([{ kind: "value", path }]);

/** The namespace that Keelson is installed in. */
export const installNamespace = new Expression([{ kind: "namespace" }]);

/** Text with values in it: `concat(value("image.repository"), ":", value("image.tag"))`. */
export const concat = (...parts: readonly (string | Expression)[]): Expression =>
  new Expression(parts.flatMap((part) => (typeof part === "string" ? [{ kind: "text" as const, text: part }] : part.parts)));

/** See {@link Conditional}. */
export const when = (condition: Condition, content: Template): Conditional => new Conditional(condition, content);

/** See {@link Choice}. */
export const choose = (condition: Condition, whenTrue: Template, whenFalse: Template): Choice =>
  new Choice(condition, whenTrue, whenFalse);

/** See {@link Splice}. */
export const splice = (path: ValuePath): Splice => new Splice(path);

/** See {@link Merge}. */
export const merge = (map: TemplateMap, path: ValuePath): Merge => new Merge(map, path);

/** Whether a value is set: neither false, 0, "" nor empty. */
export const isSet = (path: ValuePath): Condition => ({ kind: "isSet", path });
/** Whether a value is this text. */
export const equals = (path: ValuePath, expected: string): Condition => ({ kind: "equals", path, value: expected });
/** The opposite of a condition. */
export const not = (condition: Condition): Condition => ({ kind: "not", condition });
/** Whether all conditions hold. */
export const all = (...conditions: readonly Condition[]): Condition => ({ kind: "all", conditions });
/** Whether at least one condition holds. */
export const any = (...conditions: readonly Condition[]): Condition => ({ kind: "any", conditions });
