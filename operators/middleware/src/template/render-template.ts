import { callFunction, FunctionError, isTruthy, lookUp, print, type Value } from "./functions.ts";
import type { Command, Node, Operand, Pipe, Template } from "./nodes.ts";
import { missingArgument, missingValue } from "./missing-key.ts";
import { Output } from "./output.ts";
import type { RenderBudget } from "./render-budget.ts";
import { type Position, TemplateError } from "./template-error.ts";
import { isConverter, lengthOf, sizeOf } from "./value-size.ts";

/** Limits of one rendering, so that no template can block the controller. */
const limits = {
  steps: 200_000,
  outputBytes: 1_048_576,
  characters: 16_777_216,
  depth: 64,
  variables: 256,
  convertedNodes: 10_000,
} as const;

/** Elements of a list, fields and operands that take about as long as a step. */
const elementsPerStep = 8;

/** Options of {@link renderTemplate}. */
export interface RenderTemplateOptions {
  /** Whether the data is an example. Default: false. */
  readonly isSample?: boolean;
  /** Limits the work of several renderings. Default: only the limits of one rendering apply. */
  readonly budget?: RenderBudget | undefined;
}

/** A variable in its scope. */
interface Variable {
  readonly name: string;
  value: Value;
}

type Flow = "on" | "break" | "continue";

/**
 * Renders a template with `data` as its dot. Pure.
 *
 * A missing key is an error where it is printed or passed to a function; `if`, `with`, `and`, `or`, `not`,
 * `default`, `coalesce`, `empty`, `required` and `ternary` treat it as empty. `<no value>` is never rendered.
 *
 * With `isSample`, the data is an example: `required` accepts an empty value, and `fail` is ignored.
 *
 * **Errors**: a {@link TemplateError} with the position, even when {@link limits} are exceeded or the `budget` is spent.
 */
export function renderTemplate(template: Template, data: unknown, options: RenderTemplateOptions = {}): string {
  return new Renderer(template, options).run(template.body, data);
}

/**
 * Stands for a required value that a sample does not have. It is valid as a number, a port and a quantity. Where a text is expected, YAML
 * parses it to a number unless it is quoted: the value of an App may be a text.
 */
export const sampleValue = 41_113;

const overBudget = "the plugin takes too long to check: use fewer or shorter loops and strings";

/** The state of one rendering. */
class Renderer {
  readonly #template: Template;
  readonly #isSample: boolean;
  readonly #budget: RenderBudget | undefined;
  #steps = 0;
  #characters = 0;
  #depth = 0;

  constructor(template: Template, { isSample = false, budget }: RenderTemplateOptions) {
    this.#template = template;
    this.#isSample = isSample;
    this.#budget = budget;
  }

  /** Runs a template in a new scope. */
  run(body: readonly Node[], dot: Value, at: Position = { line: 1, column: 1 }): string {
    if (++this.#depth > limits.depth) this.#fail(at, `template calls nested deeper than ${limits.depth}`, "Limit");
    const output = new Output(at);
    this.#walk(body, output, dot, [{ name: "$", value: dot }]);
    this.#depth -= 1;
    return output.text();
  }

  #fail(at: Position, message: string, code: TemplateError["code"] = "Execution"): never {
    throw new TemplateError(code, this.#template.name, at, message);
  }

  /** Spends a step, and those of so many `elements`. */
  #tick(at: Position, elements = 0): void {
    const steps = 1 + Math.floor(elements / elementsPerStep);
    this.#steps += steps;
    if (this.#steps > limits.steps) this.#fail(at, `more than ${limits.steps} steps`, "Limit");
    if (this.#budget?.spend(steps) === false) this.#fail(at, overBudget, "Limit");
  }

  /** Fails if the text of a value would be too long. */
  #measure(at: Position, value: Value): void {
    if (typeof value !== "object" || value === null) return;
    const size = sizeOf(value, { nodes: limits.convertedNodes, characters: limits.outputBytes });
    if (size === undefined) this.#fail(at, "a list or a map is too large or too deep for a string", "Limit");
    this.#tick(at, size.nodes * elementsPerStep);
    if (this.#budget?.read(size.characters) === false) this.#fail(at, overBudget, "Limit");
  }

  #spend(at: Position, ...values: readonly Value[]): void {
    const characters = values.reduce<number>((sum, value) => sum + (typeof value === "string" ? value.length : 0), 0);
    this.#characters += characters;
    if (this.#characters > limits.characters) this.#fail(at, `more than ${limits.characters} characters of text`, "Limit");
    if (this.#budget?.read(characters) === false) this.#fail(at, overBudget, "Limit");
  }

  #write(output: Output, text: string, at: Position): void {
    this.#spend(at, text);
    if (!output.write(text, limits.outputBytes)) this.#fail(at, `output exceeds ${limits.outputBytes} characters`, "Limit");
  }

  #walk(nodes: readonly Node[], output: Output, current: Value, variables: Variable[]): Flow {
    for (const node of nodes) {
      const flow = this.#step(node, output, current, variables);
      if (flow !== "on") return flow;
    }
    return "on";
  }

  #step(node: Node, output: Output, current: Value, variables: Variable[]): Flow {
    switch (node.kind) {
      case "text":
        this.#write(output, node.text, output.at);
        return "on";
      case "action": {
        const value = this.#pipeline(node.pipe, current, variables);
        if (node.pipe.variables.length > 0) return "on";
        if (value === undefined) this.#fail(node.at, `${missingValue(node.pipe)}key not found`);
        this.#measure(node.at, value);
        const text = this.#guarded(node.at, () => print(value));
        this.#write(output, text, node.at);
        return "on";
      }
      case "break":
      case "continue":
        return node.kind;
      case "template": {
        this.#tick(node.at);
        const inner = this.#template.defined.get(node.name);
        if (inner === undefined) this.#fail(node.at, `template ${JSON.stringify(node.name)} not found`);
        const dot = node.pipe === undefined ? null : this.#pipeline(node.pipe, current, variables);
        this.#write(output, this.run(inner, dot, node.at), node.at);
        return "on";
      }
      case "if":
      case "with": {
        const own = [...variables];
        const value = this.#pipeline(node.pipe, current, own);
        if (isTruthy(value)) return this.#walk(node.body, output, node.kind === "with" ? value : current, own);
        return this.#walk(node.otherwise, output, current, own);
      }
      case "range":
        return this.#range(node, output, current, variables);
    }
  }

  #range(node: Extract<Node, { kind: "range" }>, output: Output, current: Value, variables: Variable[]): Flow {
    const value = this.#pipeline({ ...node.pipe, variables: [] }, current, variables);
    this.#tick(node.pipe.at, typeof value === "number" ? Math.min(value, 10_000) : lengthOf(value));
    const entries = this.#entriesOf(value, node.pipe.at);
    if (entries.length === 0) return this.#walk(node.otherwise, output, current, [...variables]);
    const [first, second] = node.pipe.variables;
    for (const [key, each] of entries) {
      this.#tick(node.pipe.at);
      const own = [...variables];
      const bind = (name: string | undefined, bound: Value): void => {
        if (name === undefined) return;
        const known = node.pipe.isAssignment ? own.findLast((variable) => variable.name === name) : undefined;
        if (known) known.value = bound;
        else own.push({ name, value: bound });
      };
      if (second === undefined) bind(first, each);
      else {
        bind(first, key);
        bind(second, each);
      }
      if (this.#walk(node.body, output, each, own) === "break") break;
    }
    return "on";
  }

  #entriesOf(value: Value, at: Position): readonly (readonly [Value, Value])[] {
    if (value === null || value === undefined) return [];
    if (Array.isArray(value)) return value.map((each, index) => [index, each] as const);
    if (typeof value === "object") {
      return Object.entries(value).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    }
    if (typeof value === "number" && value <= 10_000) {
      return Array.from({ length: Math.max(0, Math.trunc(value)) }, (_, index) => [index, index] as const);
    }
    return this.#fail(at, `range: ${JSON.stringify(value)} is not a list, a map or a small number`);
  }

  #pipeline(pipe: Pipe, dot: Value, variables: Variable[]): Value {
    let value: Value;
    let previous: Command | undefined;
    for (const command of pipe.commands) {
      value = this.#runCommand(command, dot, variables, previous === undefined ? [] : [value], previous);
      previous = command;
    }
    for (const name of pipe.variables) {
      const known = pipe.isAssignment ? variables.findLast((variable) => variable.name === name) : undefined;
      if (known) known.value = value;
      else {
        variables.push({ name, value });
        if (variables.length > limits.variables) this.#fail(pipe.at, `more than ${limits.variables} variables`, "Limit");
      }
    }
    return value;
  }

  #runCommand(command: Command, dot: Value, variables: Variable[], piped: readonly Value[], previous?: Command): Value {
    this.#tick(command.at, command.operands.length);
    const [first, ...rest] = command.operands;
    if (first === undefined) return this.#fail(command.at, "missing value");
    if (first.kind !== "function") return this.#operand(first, dot, variables);
    if (first.name === "and" || first.name === "or") {
      // They return the deciding argument and do not evaluate later ones.
      let last: Value;
      for (const argument of rest) {
        last = this.#operand(argument, dot, variables);
        if (isTruthy(last) === (first.name === "or")) return last;
      }
      return piped.length > 0 ? piped[0] : last;
    }
    const values = [...rest.map((argument) => this.#operand(argument, dot, variables)), ...piped];
    if (first.name === "include") {
      const [name, inner] = values;
      const body = typeof name === "string" ? this.#template.defined.get(name) : undefined;
      if (body === undefined) return this.#fail(command.at, `include: template ${JSON.stringify(name)} not found`);
      return this.run(body, inner, command.at);
    }
    if (this.#isSample && first.name === "fail") return "";
    if (this.#isSample && first.name === "required" && !isTruthy(values[1])) return sampleValue;
    this.#spend(command.at, ...values);
    const convertsValues = isConverter(first.name);
    for (const value of values) {
      if (convertsValues) this.#measure(command.at, value);
      else this.#tick(command.at, lengthOf(value));
    }
    return this.#guarded(command.at, () => {
      const value = callFunction(first.name, values, (index) => missingArgument(rest, index, previous));
      this.#spend(command.at, value);
      this.#tick(command.at, lengthOf(value));
      if (typeof value === "string" && value.length > limits.outputBytes) {
        this.#fail(command.at, `${first.name}: result exceeds ${limits.outputBytes} characters`, "Limit");
      }
      return value;
    });
  }

  #operand(node: Operand, dot: Value, variables: Variable[]): Value {
    let value: Value;
    switch (node.kind) {
      case "literal":
        return node.value;
      case "function":
        return this.#runCommand({ at: node.at, operands: [node] }, dot, variables, []);
      case "dot":
        value = dot;
        break;
      case "variable":
        value = variables.findLast((variable) => variable.name === node.name)?.value;
        break;
      case "pipe":
        value = this.#pipeline(node.pipe, dot, [...variables]);
        break;
    }
    if (node.fields.length > elementsPerStep) this.#tick(node.at, node.fields.length);
    return this.#guarded(node.at, () => node.fields.reduce<Value>((found, field) => lookUp(found, field), value));
  }

  #guarded<T>(at: Position, act: () => T): T {
    try {
      return act();
    } catch (error) {
      if (error instanceof FunctionError) return this.#fail(at, error.message);
      throw error;
    }
  }
}
