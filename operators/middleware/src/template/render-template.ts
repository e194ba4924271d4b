import { callFunction, FunctionError, isTruthy, lookUp, print, type Value } from "./functions.ts";
import type { Command, Node, Operand, Pipe, Template } from "./nodes.ts";
import { type Position, TemplateError } from "./template-error.ts";

/** Limits of one rendering, so that no template can block the controller. */
const limits = { steps: 200_000, outputBytes: 1_048_576, depth: 64 } as const;

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
 * **Errors**: a {@link TemplateError} with the position, also when {@link limits} are exceeded.
 */
export function renderTemplate(template: Template, data: unknown): string {
  let steps = 0;
  let depth = 0;

  return run(template.body, data);

  function fail(at: Position, message: string, code: TemplateError["code"] = "Execution"): never {
    throw new TemplateError(code, template.name, at, message);
  }

  function tick(at: Position): void {
    if (++steps > limits.steps) fail(at, `more than ${limits.steps} steps`, "Limit");
  }

  /** Runs a template in a new scope. */
  function run(body: readonly Node[], dot: Value, at: Position = { line: 1, column: 1 }): string {
    if (++depth > limits.depth) fail(at, `template calls nested deeper than ${limits.depth}`, "Limit");
    const out: string[] = [];
    let size = 0;
    const write = (text: string, place: Position): void => {
      size += text.length;
      if (size > limits.outputBytes) fail(place, `output exceeds ${limits.outputBytes} characters`, "Limit");
      out.push(text);
    };
    const scope: Variable[] = [{ name: "$", value: dot }];
    walk(body, dot, scope);
    depth -= 1;
    return out.join("");

    function walk(nodes: readonly Node[], current: Value, variables: Variable[]): Flow {
      for (const node of nodes) {
        const flow = step(node, current, variables);
        if (flow !== "on") return flow;
      }
      return "on";
    }

    function step(node: Node, current: Value, variables: Variable[]): Flow {
      switch (node.kind) {
        case "text":
          write(node.text, at);
          return "on";
        case "action": {
          const value = pipeline(node.pipe, current, variables);
          if (node.pipe.variables.length === 0)
            write(
              guarded(node.at, () => print(value)),
              node.at,
            );
          return "on";
        }
        case "break":
        case "continue":
          return node.kind;
        case "template": {
          const inner = template.defined.get(node.name);
          if (inner === undefined) fail(node.at, `template ${JSON.stringify(node.name)} not found`);
          write(run(inner, node.pipe === undefined ? null : pipeline(node.pipe, current, variables), node.at), node.at);
          return "on";
        }
        case "if":
        case "with": {
          const own = [...variables];
          const value = pipeline(node.pipe, current, own);
          if (isTruthy(value)) return walk(node.body, node.kind === "with" ? value : current, own);
          return walk(node.otherwise, current, own);
        }
        case "range":
          return range(node, current, variables);
      }
    }

    function range(node: Extract<Node, { kind: "range" }>, current: Value, variables: Variable[]): Flow {
      const value = pipeline({ ...node.pipe, variables: [] }, current, variables);
      const entries = entriesOf(value, node.pipe.at);
      if (entries.length === 0) return walk(node.otherwise, current, [...variables]);
      const [first, second] = node.pipe.variables;
      for (const [key, each] of entries) {
        tick(node.pipe.at);
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
        if (walk(node.body, each, own) === "break") break;
      }
      return "on";
    }
  }

  function entriesOf(value: Value, at: Position): readonly (readonly [Value, Value])[] {
    if (value === null || value === undefined) return [];
    if (Array.isArray(value)) return value.map((each, index) => [index, each] as const);
    if (typeof value === "object") {
      return Object.entries(value).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    }
    if (typeof value === "number" && value <= 10_000) {
      return Array.from({ length: Math.max(0, Math.trunc(value)) }, (_, index) => [index, index] as const);
    }
    return fail(at, `range: ${JSON.stringify(value)} is not a list, a map or a small number`);
  }

  function pipeline(pipe: Pipe, dot: Value, variables: Variable[]): Value {
    let value: Value;
    let hasValue = false;
    for (const command of pipe.commands) {
      value = runCommand(command, dot, variables, hasValue ? [value] : []);
      hasValue = true;
    }
    for (const name of pipe.variables) {
      const known = pipe.isAssignment ? variables.findLast((variable) => variable.name === name) : undefined;
      if (known) known.value = value;
      else variables.push({ name, value });
    }
    return value;
  }

  function runCommand(command: Command, dot: Value, variables: Variable[], piped: readonly Value[]): Value {
    tick(command.at);
    const [first, ...rest] = command.operands;
    if (first === undefined) return fail(command.at, "missing value");
    if (first.kind !== "function") return operand(first, dot, variables);
    if (first.name === "and" || first.name === "or") {
      // They return the deciding argument and do not evaluate later ones.
      let last: Value;
      for (const argument of rest) {
        last = operand(argument, dot, variables);
        if (isTruthy(last) === (first.name === "or")) return last;
      }
      return piped.length > 0 ? piped[0] : last;
    }
    const values = [...rest.map((argument) => operand(argument, dot, variables)), ...piped];
    if (first.name === "include") {
      const [name, inner] = values;
      const body = typeof name === "string" ? template.defined.get(name) : undefined;
      if (body === undefined) return fail(command.at, `include: template ${JSON.stringify(name)} not found`);
      return run(body, inner, command.at);
    }
    return guarded(command.at, () => {
      const value = callFunction(first.name, values);
      if (typeof value === "string" && value.length > limits.outputBytes) {
        fail(command.at, `${first.name}: result exceeds ${limits.outputBytes} characters`, "Limit");
      }
      return value;
    });
  }

  function operand(node: Operand, dot: Value, variables: Variable[]): Value {
    let value: Value;
    switch (node.kind) {
      case "literal":
        return node.value;
      case "function":
        return runCommand({ at: node.at, operands: [node] }, dot, variables, []);
      case "dot":
        value = dot;
        break;
      case "variable":
        value = variables.findLast((variable) => variable.name === node.name)?.value;
        break;
      case "pipe":
        value = pipeline(node.pipe, dot, [...variables]);
        break;
    }
    return guarded(node.at, () => node.fields.reduce<Value>((found, field) => lookUp(found, field), value));
  }

  function guarded<T>(at: Position, act: () => T): T {
    try {
      return act();
    } catch (error) {
      if (error instanceof FunctionError) return fail(at, error.message);
      throw error;
    }
  }
}
